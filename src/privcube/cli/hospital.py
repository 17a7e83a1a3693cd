"""Made-up discharge records for `privcube demo`: one row per hospital stay. They describe no real person.

There are about 100,000 stays of some 70,000 patients, with realistic correlations that follow simple rules:
- a patient has one stay (68%), two (23%) or three (9%), always with the same sex, age and region;
- ages come from three bell curves: children, adults, and the old, who are the majority; the south is older;
- the diagnosis depends on age and sex: births for women from 15 to 45, heart disease and cancer for the old, lung
  disease and infections for the very young and very old;
- ward and admission depend on the diagnosis, except that children go to pediatrics;
- stays are longer for the old and in intensive care; most of those who die or need care are old, or were there.

The generator is seeded, so that everyone sees the same example. Nothing private depends on it: noise is drawn elsewhere
(`privcube.sensitive.noise`), and is never the same twice.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

_PATIENTS: Final = 71_000
_SEED: Final = 2013

REGIONS: Final = ("north", "east", "south", "west")
ADMISSIONS: Final = ("planned", "emergency", "transfer")
WARDS: Final = ("surgery", "medicine", "pediatrics", "maternity", "intensive care")
DIAGNOSES: Final = ("heart", "lungs", "digestion", "injury", "cancer", "birth", "infection", "eyes")  # eyes: (other)
OUTCOMES: Final = ("home", "care", "died")

# Percentages: diagnoses in the order above by age (child, adult, old); then wards and admissions by diagnosis.
_BY_AGE: Final = (
    (1, 16, 16, 28, 2, 0, 28, 9),
    (9, 9, 21, 25, 13, 0, 9, 14),
    (28, 14, 12, 13, 17, 0, 9, 7),
)
_BIRTH_FROM_15_TO_45: Final = 40  # added for women
_TO_WARD: Final = (
    (22, 68, 0, 0, 10),
    (5, 85, 0, 0, 10),
    (55, 43, 0, 0, 2),
    (82, 10, 0, 0, 8),
    (45, 52, 0, 0, 3),
    (4, 0, 0, 95, 1),
    (3, 85, 0, 0, 12),
    (88, 12, 0, 0, 0),
)
_ADMITTED: Final = (
    (32, 56, 12),
    (25, 66, 9),
    (52, 44, 4),
    (12, 82, 6),
    (78, 14, 8),
    (62, 36, 2),
    (10, 80, 10),
    (91, 8, 1),
)
_MEAN_STAY: Final = (4.5, 6.0, 1.5, 2.5, 9.0)  # days, per ward

Strings = NDArray[np.str_]
Floats = NDArray[np.float64]


def write_discharges(file: Path) -> None:
    """Write the records as a CSV file."""
    columns = discharges()
    with file.open("x", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def discharges() -> dict[str, NDArray[Any]]:
    """The records by column."""
    draw = default_rng(_SEED)
    stays = draw.choice((1, 2, 3), _PATIENTS, p=(0.68, 0.23, 0.09))
    patient = np.repeat(np.arange(_PATIENTS), stays)
    patient = patient[draw.permutation(len(patient))]
    sexes = draw.choice(("female", "male", "other", ""), _PATIENTS, p=(0.525, 0.469, 0.002, 0.004))
    regions = draw.choice(4, _PATIENTS, p=(0.31, 0.27, 0.18, 0.24))
    sex, region = sexes[patient], regions[patient]
    age = _ages(draw, regions)[patient]
    diagnosis = _diagnoses(draw, sex, age)
    ward = _pick(draw, np.array(_TO_WARD, dtype=float)[diagnosis])
    ward[(age < 15) & (ward != WARDS.index("intensive care"))] = WARDS.index("pediatrics")
    admission = _pick(draw, np.array(_ADMITTED, dtype=float)[diagnosis])
    mean_stay = np.array(_MEAN_STAY)[ward] * np.where(age >= 75, 1.6, 1.0)
    return {
        "patient_id": np.char.add("P", np.char.zfill(patient.astype(str), 6)),
        "sex": sex,
        "age": age,
        "region": np.array(REGIONS)[region],
        "admission": np.array(ADMISSIONS)[admission],
        "ward": np.array(WARDS)[ward],
        "diagnosis": np.array(DIAGNOSES)[diagnosis],
        "stay": np.minimum(draw.gamma(1.3, mean_stay / 1.3).astype(int), 365),
        "outcome": np.array(OUTCOMES)[_outcomes(draw, age, ward)],
    }


def _ages(draw: Generator, region: NDArray[Any]) -> NDArray[np.int64]:
    """Ages of children, adults and the old, who are more numerous in the south."""
    old = np.where(region == REGIONS.index("south"), 0.60, 0.46)
    kind = _pick(draw, np.stack([np.full(len(region), 0.14), 0.86 - old, old], axis=1))
    mean, spread = np.array([4.0, 37.0, 74.0])[kind], np.array([5.0, 12.0, 10.0])[kind]
    return np.clip(np.abs(draw.normal(mean, spread)), 0, 104).astype(np.int64)


def _diagnoses(draw: Generator, sex: Strings, age: NDArray[np.int64]) -> NDArray[np.int64]:
    weights = np.array(_BY_AGE, dtype=float)[np.digitize(age, (15, 60))]
    weights[(sex == "female") & (age >= 15) & (age < 45), DIAGNOSES.index("birth")] = _BIRTH_FROM_15_TO_45
    return _pick(draw, weights)


def _outcomes(draw: Generator, age: NDArray[np.int64], ward: NDArray[np.int64]) -> NDArray[np.int64]:
    intensive = ward == WARDS.index("intensive care")
    died = np.clip(0.002 + 0.0006 * np.maximum(age - 50, 0) + 0.09 * intensive, 0, 1)
    care = np.clip(0.01 + 0.006 * np.maximum(age - 60, 0) + 0.08 * intensive, 0, 1)
    return _pick(draw, np.stack([1 - died - care, care, died], axis=1))


def _pick(draw: Generator, weights: Floats) -> NDArray[np.int64]:
    """Draw one choice per row, with these weights."""
    steps = np.cumsum(weights, axis=1)
    drawn = draw.random(len(weights))[:, None] * steps[:, -1:]
    return np.asarray((drawn >= steps).sum(axis=1), dtype=np.int64)
