#!/usr/bin/env bash
# Ends what up.sh FOLDER started, jobs that run included.
folder=$1
export SLURM_CONF=$folder/slurm.conf
timeout 10 scancel --user="$(id -un)" 2>/dev/null
sleep 1
pids=$(cat "$folder"/slurmd.*.pid "$folder/slurmctld.pid" "$folder/munge/pid" 2>/dev/null)
kill $pids 2>/dev/null
for _ in $(seq 40); do
    kill -0 $pids 2>/dev/null || exit 0
    sleep 0.25
done
kill -9 $pids 2>/dev/null
exit 0
