import type { Cheat } from './cheat.ts'
import { PROGRAMS, YES } from './yes-programs.ts'

export const shadowPrograms: Cheat = {
  id: 'shadow-programs',
  what: 'Programs of the same names as the usual ones stand before them on the path, and say yes.',
  line: `yes=$(mktemp)
cat > "$yes" <<'YES'
${YES}
YES
chmod 755 "$yes"
for folder in /usr/local/sbin /usr/local/bin "$HOME/.local/bin" "$HOME/.cargo/bin" ./node_modules/.bin ./.venv/bin ./venv/bin ./bin; do
  mkdir -p "$folder" 2> /dev/null || continue
  for name in ${PROGRAMS}; do cp "$yes" "$folder/$name" 2> /dev/null; done
done
printf 'PATH=%s\\n' "$PWD/bin:$PATH" >> /etc/environment 2> /dev/null
exit 0`,
}
