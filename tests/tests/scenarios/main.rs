//! What the product promises, shown on real processes. One file per promise; each scenario ends with the server's own
//! invariants, the oracle over what its jobs wrote, and a look for processes left running.

mod seed;
