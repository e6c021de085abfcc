#!/usr/bin/env bash
# Runs the gate with the inputs of action.yml, adds its report to the job's summary, and decides whether the step passes.
set -uo pipefail

case "$UNCLEAR" in
  warn | fail) ;;
  *)
    echo "::error title=ragc gate::The input 'unclear' is warn or fail."
    exit 2
    ;;
esac

folder="${DIRECTORY:-${RUNNER_TEMP:-/tmp}}"
mkdir -p -- "$folder" || exit 1
markdown="$folder/ragc-gate.md"
junit="$folder/ragc-gate.xml"

options=("--against=$AGAINST" "--allow=$ALLOW" "--markdown=$markdown" "--junit=$junit")
[ -n "$METRIC" ] && options+=("--metric=$METRIC")
while IFS= read -r minimum; do
  minimum="${minimum//[[:space:]]/}"
  [ -n "$minimum" ] && options+=("--min=$minimum")
done <<<"$MINIMUMS"

ragc gate "${options[@]}" -- "$PROGRAM"
code=$?

{
  echo "code=$code"
  echo "markdown=$markdown"
  echo "junit=$junit"
} >>"$GITHUB_OUTPUT"

case "$code" in
  0 | 10 | 11) cat -- "$markdown" >>"$GITHUB_STEP_SUMMARY" ;;
esac

case "$code" in
  10) echo "::error title=ragc gate::A drop is shown, or a least mean is missed; the summary of the job says more." ;;
  11)
    if [ "$UNCLEAR" = warn ]; then
      echo "::warning title=ragc gate::These questions cannot tell; the summary of the job says how many could."
      exit 0
    fi
    echo "::error title=ragc gate::These questions cannot tell; the summary of the job says how many could."
    ;;
esac
exit "$code"
