import { REPOSITORY_FOLDER } from '../../grading/suite.ts'

export type CollectPaths = {
  repository: string
  /** The only file that reaches the verifier. */
  submission: string
  /**
   * Copy of the base repository out of the agent's reach. The patch can be computed even if an agent deletes or
   * rewrites `.git`, commits, or sets hooks, filters and attributes.
   */
  base: string
}

export const COLLECT_PATHS: CollectPaths = {
  repository: REPOSITORY_FOLDER,
  submission: '/logs/artifacts/submission.patch',
  base: '/var/lib/base.git',
}

/** Environment of git, without settings of the machine, a user or the agent. */
const gitEnvironment = ({ base, repository }: CollectPaths): string =>
  `GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_DIR=${base} GIT_WORK_TREE=${repository}`

/** Git attributes that disable every conversion of file contents, whatever the repository's attributes say. */
const RAW_ATTRIBUTES = '* -text -ident -filter -working-tree-encoding !eol !diff'

const BASE_AUTHOR = ['AUTHOR', 'COMMITTER']
  .map((role) => `GIT_${role}_NAME=base GIT_${role}_EMAIL= GIT_${role}_DATE='@0 +0000'`)
  .join(' ')

/**
 * Shell code for the last step of a Dockerfile. Saves the tracked files of the repository, and the ignore rules of
 * `.git/info/exclude`.
 */
export const saveBaseScript = (
  places: CollectPaths = COLLECT_PATHS,
): string => `cd ${places.repository} && export ${gitEnvironment(places)} \\
 && git init --quiet --template= --initial-branch=main && mkdir -p ${places.base}/info \\
 && echo '${RAW_ATTRIBUTES}' > ${places.base}/info/attributes && (cat .git/info/exclude > ${places.base}/info/exclude || true) \\
 && git --git-dir=.git ls-files -z | git update-index --add -z --stdin \\
 && ${BASE_AUTHOR} git commit-tree -m base "$(git write-tree)" > ${places.base}/refs/heads/main \\
 && rm ${places.base}/config ${places.base}/index
`

/** No file that a screened pull request changes is larger. */
const FILE_KIB_MAX = 1024
const PATCH_BYTES_MAX = 32 * 1024 * 1024

const SETTINGS = Object.entries({
  'safe.directory': '*',
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.untrackedCache': 'false',
  'core.attributesFile': '/dev/null',
  'core.autocrlf': 'false',
})
  .map(([key, value]) => `-c '${key}=${value}'`)
  .join(' ')

/**
 * Bash script that runs as root in the agent's sandbox and records what the agent changed. New files that are too large
 * and clones inside the repository are left out. Objects and index are stored elsewhere, so that files that the agent
 * left cannot interfere.
 */
export const collectScript = (
  places: CollectPaths = COLLECT_PATHS,
): string => `export LC_ALL=C HOME=/nonexistent ${gitEnvironment(places)}
folder=$(dirname ${places.submission})
if [ -L "$folder" ] || [ ! -d "$folder" ]; then rm -rf "$folder"; mkdir -p "$folder"; fi
rm -rf ${places.submission}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/objects" && cd ${places.repository} || exit 1
export GIT_INDEX_FILE="$work/index" GIT_OBJECT_DIRECTORY="$work/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES=${places.base}/objects
{
  find . -xdev -path ./.git -prune -o -type f -size +${FILE_KIB_MAX}k -print
  find . -xdev -mindepth 2 -name .git -prune -print | sed 's,/\\.git$,,'
} | sed 's,^\\.,,; s/[][*?\\\\ !#]/\\\\&/g' > "$work/exclude"
plainly() { git ${SETTINGS} -c core.excludesFile="$work/exclude" "$@"; }
plainly read-tree main && plainly add --all --ignore-errors . 2> "$work/said"
plainly diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv main > "$work/patch" || exit 1
if [ "$(wc -c < "$work/patch")" -gt ${PATCH_BYTES_MAX} ]; then echo 'The change is too large.'; exit 1; fi
cp "$work/patch" ${places.submission} && chmod 644 ${places.submission}`
