#!/usr/bin/env bash
# Starts a whole Slurm cluster of two nodes on this machine, for tests: up.sh FOLDER PORT
# Everything lies under FOLDER and listens on 127.0.0.1 from PORT on. It needs root and Debian's
# packages slurm-wlm and munge, but no systemd, no cgroups and no accounting. Then:
# export SLURM_CONF=FOLDER/slurm.conf
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
port=$2
host=$(hostname -s)
mkdir -p "$folder"/{munge,state,log,spool.n0,spool.n1}
chmod 755 "$folder" "$folder/munge"

# A munge of our own: authentication must not depend on a service of the machine.
head -c 128 /dev/urandom >"$folder/munge/key"
chmod 400 "$folder/munge/key"
munged --force --socket="$folder/munge/socket" --key-file="$folder/munge/key" \
    --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"

# Two GPUs a node that are none: to Slurm a GPU is a device file.
for index in 0 1; do mknod "$folder/gpu$index" c 1 3; done
echo "NodeName=n[0-1] Name=gpu File=$folder/gpu[0-1]" >"$folder/gres.conf"

# cred_expire is how long a requeued job waits; 5 s is the least that Slurm takes.
# config_overrides lets two nodes claim the cores of one machine.
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=10000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MaxArraySize=4
KillWait=5
SlurmdTimeout=15
ReturnToService=2
GresTypes=gpu
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
NodeName=n[0-1] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 2))] CPUs=2 RealMemory=2000 Gres=gpu:2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=10 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
CONF

export SLURM_CONF=$folder/slurm.conf
slurmctld
for node in n0 n1; do slurmd -N "$node"; done
for _ in $(seq 120); do
    [ "$(sinfo --noheader --Node --partition=low --states=idle --format=%N 2>/dev/null | wc -l)" = 2 ] && exit 0
    sleep 0.25
done
sinfo --Node >&2
tail -n 20 "$folder"/log/*.log >&2
exit 1
