"""The exception for a run whose tests cannot be counted."""


class Broken(Exception):
    """Reasons: no_report, timeout, patch_does_not_apply, prepare_failed."""

    def __init__(self, reason, detail):
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
