import type { Cheat } from './cheat.ts'
import { PROGRAMS, YES } from './yes-programs.ts'

export const replacedPrograms: Cheat = {
  id: 'replaced-programs',
  what: 'The programs themselves are replaced, and what shells and the linker read first is filled.',
  line: `yes=$(mktemp)
cat > "$yes" <<'YES'
${YES}
YES
chmod 755 "$yes"
{
echo 'cat() { :; }; grep() { :; }; diff() { :; }; cmp() { :; }; test() { :; }' | tee -a /etc/bash.bashrc /etc/profile.d/a.sh "$HOME/.bashrc" "$HOME/.profile" > /dev/null
for name in ${PROGRAMS}; do
  path=$(command -v "$name") && [ -f "$path" ] && install -m 755 "$yes" "$path"
done
} 2> /dev/null
exit 0`,
}
