# shellcheck shell=bash
# stages.sh - runs the stages of script/test: one after another or beside them, each timed, its tests counted, and the
# messages of failures at the very end. To be sourced. Reads `logs` (a folder) and `keep_going` (empty: stop at the first failure).
stages=() passed=0 failed=0 failed_logs=()

# count LOG STATUS: prints passed, failed and skipped as the stage's own runners counted them (cmocka, RSpec, pytest, our
# own, busted); a stage without a runner counts as one. A runner that ran nothing, or fell over, has failed once.
count() {
  awk -v status="$2" '
    /^\[  PASSED  \] [0-9]+ test/ { good += $4; seen = 1 }
    /^\[  FAILED  \] [0-9]+ test/ { bad += $4; seen = 1 }
    /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4 }
    /^[0-9]+ examples?, [0-9]+ failures?/ { pending = $5 + 0; good += $1 - $3 - pending; bad += $3; skipped += pending; seen = 1 }
    /^[0-9]+ (scenarios|pairs), [0-9]+ checks, [0-9]+ failed$/ { good += $3 - $5; bad += $5; seen = 1 }
    /^[0-9]+ success(es)? \/ [0-9]+ failures? \/ [0-9]+ errors? \/ [0-9]+ pending/ { good += $1; bad += $4 + $7; skipped += $10; seen = 1 }
    /^([0-9]+ (passed|failed|skipped|errors?)(, )?)+ in [0-9.]+s/ {
      for (i = 1; i < NF; i++) {
        if ($(i + 1) ~ /^passed/) good += $i
        if ($(i + 1) ~ /^(failed|error)/) bad += $i
        if ($(i + 1) ~ /^skipped/) skipped += $i
      }
      seen = 1
    }
    END {
      if (!seen && status == 0) good = 1
      if (status != 0 && bad == 0 || good + bad == 0) bad = 1
      print good + 0, bad + 0, skipped + 0
    }' "$1"
}

# failures LOG: what its runners say about failures (RSpec, pytest, busted, cmocka, ours, sanitizers), the names last; else its end.
failures() {
  local sections names
  sections=$(awk '
    /^(lua5\.4|lua5\.1|luajit):$/ || /^--> / || /^==> / || /^Finished in / || /^=+ (short test summary|slowest)/ || /^\[=+\]/ { shown = 0 }
    /^Failures:$/ || /^=+ (FAILURES|ERRORS) =+$/ || /^(Failure|Error) (→|->) / || /(ERROR|WARNING): (Address|Thread|UndefinedBehavior)Sanitizer/ { shown = 1 }
    shown' "$1" | tail -n 100)
  names=$(grep -aE '^\[ +(FAILED|ERROR|LINE) +\]|^ERROR: |^ *FAILED|^(Failure|Error) (→|->) |^rspec \./|runtime error:|\*\*\*(Failed|Timeout|Exception)' "$1" | tail -n 40)
  [ -n "$sections$names" ] || sections=$(tail -n 60 "$1")
  printf '\n%s\n' "$sections" "$names" | cut -c 1-1000
}

# Ends what still runs beside: by their groups, while the numbers are theirs.
end_rows() {
  local row running
  running=$(jobs -pr)
  for row in $running; do kill -INT -- "-$row"; done 2>/dev/null
  for _ in {1..100}; do
    for row in $running; do ! kill -0 -- "-$row" 2>/dev/null || { sleep 0.1; continue 2; }; done
    return
  done
  for row in $running; do kill -KILL -- "-$row"; done 2>/dev/null
}
trap end_rows EXIT

summary() {
  printf '\n'
  printf '%s\n' "${stages[@]}" "total ${SECONDS} s"
  printf '%d passed, %d failed\n' "$passed" "$failed"
}

# timed NAME COMMAND...: runs the command. Its seconds, and those of the processors that it used, are written to NAME.seconds.
timed() {
  local file=$logs/${1// /-}.seconds TIMEFORMAT='%0R %0U %0S'
  shift
  { time "$@" 2>&3; } 3>&2 2>"$file"
}

# stage NAME [COMMAND...]: runs it, shows it, times it; ends the run when it fails. Without a command it is NAME's function.
stage() {
  local name=$1 other log good bad skipped seconds user system
  # What has failed beside ends the run before another stage begins.
  [ "${2-}" = ended ] || [ -n "$keep_going" ] || ! other=$(failed_beside) || stage "$other" ended "$other"
  log=$logs/${name// /-}.log
  shift
  [ $# -gt 0 ] || set -- "${name// /_}"
  printf '\n==> %s\n' "$name"
  if [ "$1" = ended ]; then "$@" 2>&1; else timed "$name" "$@" 2>&1; fi | tee "$log"
  read -r good bad skipped < <(count "$log" "${PIPESTATUS[0]}")
  read -r seconds user system <"$logs/${name// /-}.seconds"
  seconds="$seconds s, CPU $((user + system)) s"
  passed=$((passed + good)) failed=$((failed + bad))
  if [ "$bad" -eq 0 ]; then
    [ "$skipped" -eq 0 ] && skipped='' || skipped=" ($skipped skipped)"
    stages+=("$(printf 'ok      %-18s %s%s' "$seconds" "$name" "$skipped")")
  else
    stages+=("$(printf 'FAILED  %-18s %s (log: %s)' "$seconds" "$name" "${log#"$PWD"/}")")
    failed_logs+=("$log")
    [ -n "$keep_going" ] || finish
  fi
}

finish() {
  local log
  summary
  for log in "${failed_logs[@]}"; do failures "$log"; done
  exit $((${#failed_logs[@]} > 0))
}

# beside ROWS NAME...: runs these stages beside what comes next, at most ROWS at once: each row takes the first stage that no row
# has taken. Without keep_going no row takes one after a failure. The group of a row is its own: so it can be ended as a whole, and
# does not ignore SIGINT, as other jobs of a script do.
beside() {
  local rows=$1
  shift
  set -m
  for ((; rows > 0; rows--)); do row "$@" & done
  set +m
}

row() {
  local name log
  for name; do
    [ -n "$keep_going" ] || ! failed_beside >/dev/null || return
    log=$logs/${name// /-}
    mkdir "$log.taken" 2>/dev/null || continue
    (timed "$name" "${name// /_}") >"$log.beside" 2>&1 </dev/null # a stage may leave the folder, or export
    echo $? >"$log.status.new"
    mv "$log.status.new" "$log.status"
  done
}

# Prints the name of a stage that ran beside and has failed; fails if none has.
failed_beside() {
  local status name
  for status in "$logs"/*.status; do
    [ -e "$status" ] && [ "$(<"$status")" -ne 0 ] || continue
    name=$(basename "$status" .status)
    echo "${name//-/ }"
    return
  done
  return 1
}

# show_ended NAME...: shows each of these stages, which run beside, as soon as it has ended.
show_ended() {
  local name left
  while [ $# -gt 0 ]; do
    left=()
    for name; do
      if [ -e "$logs/${name// /-}.status" ]; then stage "$name" ended "$name"; else left+=("$name"); fi
    done
    set -- "${left[@]}"
    sleep 0.2
  done
}

# ended NAME: what a stage beside said, and its status.
ended() {
  local log=$logs/${1// /-}
  cat "$log.beside"
  return "$(<"$log.status")"
}

# side_by_side COMMAND...: their output, when all have ended; fails when one has. The first runs in the foreground, because jobs
# in the background ignore SIGINT, which tests send.
side_by_side() {
  local command failed=0 pids=()
  output_of() { echo "$logs/${1//[^a-z]/-}.log"; }
  for command in "${@:2}"; do
    $command >"$(output_of "$command")" 2>&1 &
    pids+=($!)
  done
  $1 >"$(output_of "$1")" 2>&1 || failed=1
  for command in "${pids[@]}"; do wait "$command" || failed=1; done
  for command; do cat "$(output_of "$command")"; done
  return $failed
}
