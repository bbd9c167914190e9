# shellcheck shell=bash
# The node's own processes: started detached, known by pid and start time; sourced.
#
# A pid alone may have passed to a stranger since, so the start time (field 22 of /proc/PID/stat) is kept beside it.

# A zombie counts as ended: who inherited it may be slow to collect it.
start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2> /dev/null) || return 1
    # The command name in parentheses may hold spaces: count the fields after it.
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    [ "$1" != Z ] || return 1
    printf '%s\n' "${20}"
}

# launch NAME COMMAND…: run detached, output to $LOGS/NAME.log, identity to $RUN/pids/NAME.
launch() {
    local name=$1
    shift
    setsid "$@" > "$LOGS/$name.log" 2>&1 < /dev/null 9>&- &
    local pid=$!
    disown "$pid"
    printf '%s %s\n' "$pid" "$(start_time "$pid")" > "$RUN/pids/$name"
}

# Prints the pid of NAME where that very process still lives; fails otherwise.
own_pid() {
    local pid started
    read -r pid started 2> /dev/null < "$RUN/pids/$1" || return 1
    [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] || return 1
    printf '%s\n' "$pid"
}

# stop NAME [SECONDS]: end it, politely first.
stop() {
    local pid deadline=$((SECONDS + ${2:-10}))
    pid=$(own_pid "$1") || { rm -f "$RUN/pids/$1"; return 0; }
    kill -TERM "$pid" 2> /dev/null || true
    while own_pid "$1" > /dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || { kill -KILL "$pid" 2> /dev/null || true; deadline=$((SECONDS + 5)); }
        sleep 0.1
    done
    rm -f "$RUN/pids/$1"
}

# wait_for WHAT SECONDS PROCESS COMMAND…: until COMMAND succeeds; a dead PROCESS or the deadline ends it with its log.
wait_for() {
    local what=$1 seconds=$2 process=$3 began=$SECONDS
    shift 3
    until "$@" > /dev/null 2>&1; do
        own_pid "$process" > /dev/null || give_up "$process ended before $what" "$process"
        [ $((SECONDS - began)) -lt "$seconds" ] || give_up "$what not seen within ${seconds}s" "$process"
        sleep 0.2
    done
    say "$what (after $((SECONDS - began))s)"
}

give_up() {
    say "$1; last lines of $LOGS/$2.log:"
    tail -n 25 "$LOGS/$2.log" >&2 || true
    die "gave up; the logs are in $LOGS"
}
