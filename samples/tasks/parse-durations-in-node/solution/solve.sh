#!/bin/bash
cat > /app/duration.mjs <<'JS'
export function seconds(text) {
  const [whole, hours = 0, minutes = 0, rest = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? []
  return whole ? Number(hours) * 3600 + Number(minutes) * 60 + Number(rest) : undefined
}
JS
