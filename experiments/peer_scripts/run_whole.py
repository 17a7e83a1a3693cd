"""privcube from end to end, with whole numbers of its release."""

from protocol import serve
from run_privcube import released


def release(job, codes):
    """Plan, count, add noise, recover, and look for records that fit."""
    whole = released(job, codes).whole()
    return [whole.counts(tuple(table)) for table in job["tables"]]


serve(release)
