#!/usr/bin/env bash
# The packet director at work, in network namespaces: a client, two directors, three nginx servers on one switch.
# usage: demo.sh PATH-TO-SLUICE-L4      (root; needs ip, nginx, curl)
# Exit status 0 if everything held; prints what happens as it happens. KEEP=1 leaves it all standing until Ctrl-C.
set -u
sluice=$(realpath "${1:?path to the sluice-l4 binary}")
here=$(cd "$(dirname "$0")" && pwd)
example=$here/../../../examples/l4/director.conf
work=$(mktemp -d /tmp/l4-demo.XXXXXX)
N=l4demo$$
pids=()
failed=0
began=$(date +%s.%N)

say() { printf '%6.2f  %s\n' "$(echo "$(date +%s.%N) - $began" | bc)" "$*"; }
hold() { if [ "$1" = 0 ]; then say "holds: $2"; else say "FAILS: $2"; failed=1; fi; }
in_ns() { local host=$1; shift; ip netns exec "$N-$host" "$@"; }
has() { ip -n "$N-$1" -o addr show dev eth1 | grep -q "inet $2/"; }
ms() { date +%s%3N; }

cleanup() {
    for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null; done
    for f in "$work"/*/nginx.pid; do [ -s "$f" ] && kill "$(cat "$f")" 2>/dev/null; done
    wait 2>/dev/null
    for h in sw c d1 d2 rs1 rs2 rs3; do ip netns del "$N-$h" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP PIPE

host() { # name, address
    ip netns add "$N-$1"
    ip -n "$N-$1" link add eth1 type veth peer name "p-$1" netns "$N-sw"
    ip -n "$N-sw" link set "p-$1" master sw0 up
    ip -n "$N-$1" link set lo up
    ip -n "$N-$1" link set eth1 up
    ip -n "$N-$1" addr add "$2/24" dev eth1
}

server() { # name
    local dir=$work/$1
    mkdir -p "$dir/www"
    echo "$1" >"$dir/www/index.html"
    ln -sf "$work/big" "$dir/www/big"
    cat >"$dir/nginx.conf" <<CONF
user root; pid $dir/nginx.pid; error_log $dir/error.log; worker_processes 1;
events { }
http { access_log off; server { listen 80 default_server; root $dir/www; } }
CONF
    in_ns "$1" nginx -p "$dir" -c "$dir/nginx.conf" 2>/dev/null
}

director() { # name
    # Without a function in between, $! is the director itself.
    ip netns exec "$N-$1" "$sluice" run -f "$work/$1.conf" --socket "$work/$1.sock" --conn-tab-bits 16 >"$work/$1.log" 2>&1 &
    pids+=($!)
    eval "pid_$1=$!"
    disown $!
}

ip netns add "$N-sw"
ip -n "$N-sw" link add name sw0 type bridge forward_delay 0 mcast_snooping 0
ip -n "$N-sw" link set sw0 up
host c 10.0.0.1; host d1 10.0.0.2; host d2 10.0.0.3
head -c 24000000 /dev/urandom >"$work/big"
for i in 1 2 3; do
    host rs$i 10.0.0.1$i
    # A real server of direct routing has the virtual addresses, and does not answer for them.
    in_ns rs$i sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
    for a in $(seq 0 15); do ip -n "$N-rs$i" addr add 10.128.0.$a/32 dev lo; done
    ip -n "$N-rs$i" addr add 10.128.1.1/32 dev lo
    server rs$i
done
ip -n "$N-c" route add 10.128.0.0/16 dev eth1
say "client 10.0.0.1, directors d1 and d2, servers rs1, rs2, rs3 (nginx) on one switch"

# The example as it stands, and one more virtual server whose flows any director finds by the same hash (mh).
more='
virtual_server 10.128.1.1 80 {
    delay_loop 5
    lb_algo mh
    mh-port
    lb_kind DR
    protocol TCP
    real_server 10.0.0.11 80 { weight 1 }
    real_server 10.0.0.12 80 { weight 1 }
    real_server 10.0.0.13 80 { weight 1 }
}
vrrp_instance DOWNLOAD {
    state BACKUP
    interface eth1
    virtual_router_id 52
    priority 150
    virtual_ipaddress { 10.128.1.1 dev eth1 }
}'
{ cat "$example"; echo "$more"; } >"$work/d1.conf"
sed 's/state MASTER/state BACKUP/; s/priority 150/priority 100/' "$work/d1.conf" >"$work/d2.conf"
director d1
director d2
for _ in $(seq 100); do has d1 10.128.0.0 && has d1 10.128.1.1 && break; sleep 0.1; done
has d1 10.128.0.15; hold $? "d1 (priority 150) became master and has the sixteen addresses"
sleep 1.5

say "curl through 10.128.0.3, six times:"
answers=$(for _ in 1 2 3 4 5 6; do in_ns c curl -s -m 3 http://10.128.0.3/; done | tr '\n' ' ')
say "  $answers"
[ "$(echo "$answers" | tr ' ' '\n' | sed '/^$/d' | sort | uniq -c | awk '{printf "%s%s ",$2,$1}')" = "rs12 rs22 rs32 " ]
hold $? "every server answers in turn"
in_ns c ping -c1 -W1 10.128.0.3 >/dev/null; hold $? "the director itself answers ping"

say "a download through 10.128.1.1 begins (24 MB, 1.5 MB/s); the master is killed (-9) in its middle"
in_ns c curl -s -m 60 --limit-rate 1500k http://10.128.1.1/big -o "$work/got" &
download=$!
sleep 2
killed=$(ms)
kill -9 "$pid_d1"
for _ in $(seq 500); do has d2 10.128.1.1 && has d2 10.128.0.0 && break; sleep 0.01; done
took=$(($(ms) - killed))
# Three adverts and the skew of priority 100: 3 + 156/256 seconds.
[ "$took" -le 3660 ]; hold $? "d2 took over after $took ms (three adverts and the skew: 3609 ms)"
wait "$download"; status=$?
cmp -s "$work/got" "$work/big" && [ "$status" = 0 ]; hold $? "the download came through whole"

say "rs1's nginx stops; its check asks every 5 s and again 3 times, 3 s apart"
kill "$(cat "$work/rs1/nginx.pid")"
stopped=$(ms)
for _ in $(seq 200); do "$sluice" show servers --socket "$work/d2.sock" | grep -q 'DOWN' && break; sleep 0.1; done
"$sluice" show servers --socket "$work/d2.sock" | grep -q 'DOWN'; hold $? "rs1 is out after $(($(ms) - stopped)) ms"
answers=$(for _ in 1 2 3 4; do in_ns c curl -s -m 3 http://10.128.0.5/; done | tr '\n' ' ')
say "  curl: $answers"
! echo "$answers" | grep -q rs1; hold $? "no request goes to rs1"
server rs1
started=$(ms)
for _ in $(seq 100); do "$sluice" show servers --socket "$work/d2.sock" | grep -q 'DOWN' || break; sleep 0.1; done
answers=$(for _ in 1 2 3 4 5 6; do in_ns c curl -s -m 3 http://10.128.0.5/; done | tr '\n' ' ')
echo "$answers" | grep -q rs1; hold $? "rs1 is back $(($(ms) - started)) ms after it started: $answers"

say "rs2 drains by command"
"$sluice" set drain "TCP group VIPS" 10.0.0.12:80 --socket "$work/d2.sock"; hold $? "the command is taken"
answers=$(for _ in 1 2 3 4; do in_ns c curl -s -m 3 http://10.128.0.5/; done | tr '\n' ' ')
! echo "$answers" | grep -q rs2; hold $? "no new request goes to rs2: $answers"

say "d1 returns"
director d1
for _ in $(seq 100); do has d1 10.128.0.0 && ! has d2 10.128.0.0 && break; sleep 0.1; done
has d1 10.128.0.0 && ! has d2 10.128.0.0; hold $? "d1 is master again and d2 gave the addresses up"
sleep 1
[ -n "$(in_ns c curl -s -m 5 http://10.128.0.9/)" ]; hold $? "and serves"
"$sluice" show --socket "$work/d1.sock" | sed 's/^/        /'
if [ -n "${KEEP:-}" ]; then
    say "it stands until Ctrl-C (or SIGTERM to $$); in another shell, for instance:"
    for try in "$sluice show --socket $work/d1.sock" \
        "$sluice show flows --socket $work/d1.sock" \
        "$sluice ipvsadm -L -n --socket $work/d1.sock" \
        "$sluice set weight 10.128.1.1:80 10.0.0.11:80 5 --socket $work/d1.sock" \
        "ip netns exec $N-d1 $sluice doctor eth1" \
        "ip netns exec $N-c curl http://10.128.0.3/" \
        "vi $work/d1.conf; $sluice reload --socket $work/d1.sock; tail $work/d1.log"; do
        echo "        $try"
    done
    sleep infinity &
    pids+=($!)
    wait $!
fi
[ "$failed" = 0 ] && say "everything held" || { say "something failed; logs:"; tail -n 20 "$work"/*.log; }
exit "$failed"
