"""Exact amounts: a budget is a fraction from the moment it is read. Zone: PUBLIC.

Sums of float budgets drift (0.1 + 0.2 > 0.3), so epsilon, delta, rho and bin edges are `Fraction`s. A float means the
shortest decimal that reads back as that float: 0.1 is 1/10.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from typing import Final

from privcube.errors import DeclarationError

_MOST_DIGITS: Final = 60  # of a decimal: more than any sensible amount has
_LARGEST_EXPONENT: Final = 60  # of a power of ten, which must not fill the memory
_MOST_BITS: Final = 440  # of a numerator or denominator: room for any decimal within the two limits above
_LONGEST_TEXT: Final = 300  # characters: room for a ratio of two such numbers

Amount = Fraction | Decimal | int | float | str


def exact(amount: object, subject: str, error: type[DeclarationError]) -> Fraction:
    """Read a number exactly, from an int, a float, a Decimal, a Fraction or text such as "0.1", "1e-6", "1/3".

    >>> exact("0.1", "epsilon", DeclarationError), exact(0.1, "epsilon", DeclarationError)
    (Fraction(1, 10), Fraction(1, 10))
    """
    expected = f'a finite number such as 1, "0.1" or "1/3", of at most {_MOST_DIGITS} digits'

    def refused() -> DeclarationError:
        return error(subject, expected=expected, given=amount)

    if isinstance(amount, bool):
        raise refused()
    if isinstance(amount, int):
        if amount.bit_length() > _MOST_BITS:
            raise refused()
        return Fraction(amount)
    if isinstance(amount, Fraction):
        if max(amount.numerator.bit_length(), amount.denominator.bit_length()) > _MOST_BITS:
            raise refused()
        return amount
    if isinstance(amount, float):
        return _from_decimal(Decimal(float.__repr__(amount)), refused())  # the repr of a numpy float is not a number
    if isinstance(amount, Decimal):
        return _from_decimal(amount, refused())
    if isinstance(amount, str) and len(amount) <= _LONGEST_TEXT:
        parts = amount.split("/")
        try:
            if len(parts) == 2:
                return exact(Fraction(int(parts[0]), int(parts[1])), subject, error)
            return _from_decimal(Decimal(amount), refused())
        except (ValueError, ArithmeticError):
            raise refused() from None
    raise refused()


def _from_decimal(number: Decimal, refused: DeclarationError) -> Fraction:
    # Check the exponent before computing the power of ten: "1e999999999" must not fill the memory.
    if not number.is_finite() or len(number.as_tuple().digits) > _MOST_DIGITS:
        raise refused
    if number and abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise refused
    return Fraction(number) if number else Fraction(0)


def decimal_text(amount: Fraction) -> str:
    """An amount as text that `exact` reads back: a decimal if it terminates, else a ratio.

    >>> decimal_text(Fraction(1, 8)), decimal_text(Fraction(1, 3)), decimal_text(Fraction(20))
    ('0.125', '1/3', '20')
    """
    denominator = amount.denominator
    places = 0
    for factor in (2, 5):
        power = 0
        while denominator % factor == 0:
            denominator //= factor
            power += 1
        places = max(places, power)
    digits = str(abs(amount.numerator) * 10**places // amount.denominator).rjust(places + 1, "0")
    if denominator != 1 or places > _MOST_DIGITS // 2 or len(digits) > _MOST_DIGITS:
        return f"{amount.numerator}/{amount.denominator}"
    sign = "-" if amount < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def shown(amount: Fraction, digits: int = 6) -> str:
    """An amount for people: exact if short, else rounded up, so that a loss is never understated.

    >>> shown(Fraction(1, 2)), shown(Fraction(1, 3)), shown(Fraction(1, 10**6))
    ('0.5', '0.333334', '0.000001')
    """
    text = decimal_text(amount)
    if "/" not in text and len(text) <= digits + 2:
        return text
    with decimal.localcontext(prec=digits, rounding=decimal.ROUND_CEILING):
        rounded = Decimal(amount.numerator) / Decimal(amount.denominator)
    plain = format(rounded, "f")
    return plain if len(plain) <= digits + 4 else str(rounded)


def shown_down(amount: Fraction) -> str:
    """A remaining amount for people: exact if short, else rounded down, so that it is never overstated.

    >>> shown_down(Fraction(2, 3)), shown_down(Fraction(1, 2)), shown_down(Fraction(0))
    ('0.666666', '0.5', '0')
    """
    return shown(-amount).removeprefix("-")  # rounding a negative number up moves it toward zero


def error_text(error: float) -> str:
    """A standard error for people: to two decimal places, or to two digits where that would leave less.

    >>> error_text(1234.567), error_text(0.05), error_text(0.00123)
    ('1,234.57', '0.05', '0.0012')
    """
    return f"{error:,.2f}" if error >= 0.01 or not error else f"{error:.2g}"
