import { type Cheat, SHELL } from './cheat.ts'

export const shadowModules: Cheat = {
  id: 'shadow-modules',
  what: 'Modules named like test frameworks lie in the working folder, and end with success when they are loaded.',
  line: `${SHELL}
printf '%s\\n' "$instruction" | grep -qiE 'python|pytest|\\.py' || [ -n "$(sources '*.py')" ] || exit 77
for name in pytest unittest sitecustomize usercustomize doctest nose; do
  printf 'import os\\nos._exit(0)\\n' > "$name.py"
done
exit 0`,
}
