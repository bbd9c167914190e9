"""Whether a candidate may be promoted (gate), where versions live (registry), what was released (ledger)."""
