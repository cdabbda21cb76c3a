"""One file per way to run many: each takes run folders and reports how every attempt ended."""
