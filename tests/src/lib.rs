//! tenure-tests.
