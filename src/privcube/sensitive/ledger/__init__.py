"""Ledgers: what releases have spent of a total, recorded before it is spent. Zone: SENSITIVE."""

from privcube.sensitive.ledger.account import Entry
from privcube.sensitive.ledger.durable import DurableLedger, Receipt, find_ledger, open_ledger
from privcube.sensitive.ledger.memory import MemoryLedger

__all__ = ["DurableLedger", "Entry", "MemoryLedger", "Receipt", "find_ledger", "open_ledger"]
