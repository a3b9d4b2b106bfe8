"""The messages of the wire, generated from ``proto/tenure/v1``, for everything that has no nicer type in ``tenure``."""
