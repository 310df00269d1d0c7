//! Fetches of the running process and of the task that runs a stream.

use super::{int, never, truth};
use crate::env::{Env, Gauge};
use crate::value::{Fetched, Sample};

fetches! {
    "act_conn" () -> Sint, ANYWHERE, |_, env, _| gauge(env, Gauge::ActConn) => "Connections open in the process.";
    "nbproc" () -> Sint, ANYWHERE, |_, _, _| Ok(Sample::int(1)) => "The number of processes: always 1.";
    "proc" () -> Sint, ANYWHERE, |_, _, _| Ok(Sample::int(1)) => "The number of this process: always 1.";
    "pid" () -> Sint, ANYWHERE, |_, env, _| gauge(env, Gauge::Pid) => "The process's id in the system.";
    "stopping" () -> Bool, PROCESS, |_, env, _| truth(env.gauge(Gauge::Stopping).map(|n| n != 0))
        => "Whether the process is stopping.";
    "thread" () -> Sint, ANYWHERE, |_, env, _| gauge(env, Gauge::ThreadId) => "The number of the thread, from 0.";
    "tgroup" () -> Sint, ANYWHERE, |_, env, _| gauge(env, Gauge::ThreadGroup) => "The number of the thread's group.";
    "uptime" () -> Sint, ANYWHERE, |_, env, _| gauge(env, Gauge::UptimeSec) => "Seconds since the process started.";
    "cpu_usage_proc" () -> Sint, PROCESS, |_, env, _| gauge(env, Gauge::CpuUsageProc)
        => "Percent of a CPU the process used of late.";
    "cpu_usage_thr" () -> Sint, PROCESS, |_, env, _| gauge(env, Gauge::CpuUsageThread)
        => "Percent of a CPU the thread used of late.";
    "cpu_usage_grp" () -> Sint, PROCESS, |_, env, _| gauge(env, Gauge::CpuUsageGroup)
        => "Percent of a CPU the thread's group used of late.";
    "cpu_calls" () -> Sint, PROCESS, |_, env, _| int(env.stream().map(|s| s.task_calls as i64))
        => "How often the stream's task was called.";
    "cpu_ns_tot" () -> Sint, PROCESS, |_, env, _| int(env.stream().map(|s| s.task_cpu_ns as i64))
        => "Nanoseconds spent in the stream's task.";
    "cpu_ns_avg" () -> Sint, PROCESS, |_, env, _| a_call(env, |s| s.task_cpu_ns)
        => "Nanoseconds spent in a call of the stream's task, on average.";
    "lat_ns_tot" () -> Sint, PROCESS, |_, env, _| int(env.stream().map(|s| s.task_lat_ns as i64))
        => "Nanoseconds the stream's task waited between waking and running.";
    "lat_ns_avg" () -> Sint, PROCESS, |_, env, _| a_call(env, |s| s.task_lat_ns)
        => "Nanoseconds the stream's task waited for each call, on average.";
}

pub(super) fn gauge(env: &dyn Env, what: Gauge) -> Fetched<'static> {
    int(env.gauge(what))
}

fn a_call<'a>(env: &'a dyn Env, total: fn(&crate::env::StreamInfo) -> u64) -> Fetched<'a> {
    match env.stream() {
        Some(s) => Ok(Sample::int((total(s) / s.task_calls.max(1)) as i64)),
        None => never(),
    }
}
