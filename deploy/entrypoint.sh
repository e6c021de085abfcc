#!/bin/sh
# Shows the weights that came with the image to ragc, whose own folder is a volume, and runs it.
set -eu
mkdir -p "$RAGC_HOME/weights"
for file in "$RAGC_BAKED"/weights/*; do
  link="$RAGC_HOME/weights/${file##*/}"
  [ -e "$link" ] || ln -s "$file" "$link"
done
exec ragc "$@"
