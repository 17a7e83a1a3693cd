"""Whole numbers: a multiset of records whose tables are near the estimates of a release. Zone: RELEASED."""
