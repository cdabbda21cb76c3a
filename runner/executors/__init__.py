"""Ways to run many: on this machine, or through Slurm, and what each of them offers."""
