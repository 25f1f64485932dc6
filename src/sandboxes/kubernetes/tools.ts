/**
 * Programs of the helper image, copied into a volume that sandboxes mount read-only. They bring their loader and
 * libraries, so that they work in any image and execute no file that an agent can change.
 */
export const TOOLS_FOLDER = '/dev/.assay'
const PROGRAMS = [
  'cat',
  'chmod',
  'cp',
  'env',
  'find',
  'head',
  'mkdir',
  'rm',
  'rmdir',
  'setpriv',
  'setsid',
  'sh',
  'sha256sum',
  'sleep',
  'tar',
  'tee',
  'timeout',
  'xargs',
] as const
type ToolProgram = (typeof PROGRAMS)[number]

/** Folder of the tools in the container that installs them. */
export const INSTALL_FOLDER = '/tools'

/**
 * Script that copies the programs, with few processes because every sandbox runs it. The loader reads a list of libraries
 * to load from /etc/ld.so.preload, which an agent can write: in our copy of the loader the path is replaced by one of the
 * same length in the read-only volume.
 */
export const INSTALL_SCRIPT = `set -e
paths=$(for program in ${PROGRAMS.join(' ')}; do command -v "$program"; done)
libraries=$(for path in $paths; do LD_TRACE_LOADED_OBJECTS=1 "$path"; done | sed -nE 's/^[[:space:]]*(.* => )?(\\/[^ ]+) \\(.*/\\2/p' | sort -u)
cp -L $paths $libraries ${INSTALL_FOLDER}/
sed 's#/etc/ld.so.preload#${TOOLS_FOLDER}/preloa#' ${INSTALL_FOLDER}/ld-linux* > ${INSTALL_FOLDER}/ld.so
chmod 755 ${INSTALL_FOLDER}/ld.so`

/** Returns the command line that runs a tool in a sandbox. */
export const buildToolCommand = (program: ToolProgram, ...args: string[]): string[] => [
  `${TOOLS_FOLDER}/ld.so`,
  '--library-path',
  TOOLS_FOLDER,
  `${TOOLS_FOLDER}/${program}`,
  ...args,
]

/** Beginning of our scripts: `call` runs a tool. */
const CALL_FUNCTION = `call() { program=$1; shift; ${TOOLS_FOLDER}/ld.so --library-path ${TOOLS_FOLDER} "${TOOLS_FOLDER}/$program" "$@"; }\n`

/** Returns the command line that runs a script with the tools. */
export const buildScriptCommand = (script: string, ...args: string[]): string[] =>
  buildToolCommand('sh', '-c', `${CALL_FUNCTION}${script}`, 'assay', ...args)

/** Folder in which all volumes of a network are visible while they are filled. */
export const VOLUMES_FOLDER = '/.assay-volumes'

/** Script that copies folders of the image to new volumes, with their owners and rights. The arguments are pairs: volume, folder. */
export const FILL_VOLUMES_SCRIPT = `while [ $# -gt 0 ]; do
  call rm -rf "$1" && call mkdir -p "$1" && call chmod 755 "$1" || exit
  if [ -d "$2" ]; then call cp --archive --one-file-system "$2/." "$1" || exit; fi
  shift 2
done`

/**
 * Script of the first process of a sandbox's main container. It executes the requests that arrive on its input, one per
 * line. When its input ends, because the worker closed it or died, it kills all processes; the input of an adoptable
 * sandbox does not end. While commands run, it waits for no program except to repair files, because commands could stop
 * that program. SIGCHLD must not be trapped: it would interrupt `read`.
 *
 * - `hello` is answered with `hello`.
 * - `repair` restores account files that the runtime could not open when it adds a command.
 * - `end` kills all other processes, and answers with the number of processes that the kernel killed for memory.
 */
export const FIRST_PROCESS_SCRIPT = `passwd=$(call cat /etc/passwd 2> /dev/null)
group=$(call cat /etc/group 2> /dev/null)
restore() {
  call rm -rf "/etc/$1"
  printf '%s\\n' "$2" > "/etc/$1"
}
is_unsafe() {
  [ -L "/etc/$1" ] || { [ -e "/etc/$1" ] && [ -z "$(call find "/etc/$1" -type f -size -2000 2> /dev/null)" ]; }
}
repair() {
  if [ -L /etc ] || { [ -e /etc ] && [ ! -d /etc ]; }; then call rm -rf /etc; call mkdir /etc; fi
  if is_unsafe passwd; then restore passwd "$passwd"; fi
  if is_unsafe group; then restore group "$group"; fi
}
kill_all() {
  while :; do
    kill -9 -1
    (:) # waiting for a child also reaps orphans
    set -- /proc/[0-9]*
    if [ $# = 1 ]; then return; fi
  done 2> /dev/null
}
count_oom() {
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ ! -r "$file" ]; then continue; fi
    while read -r key value; do if [ "$key" = oom_kill ]; then echo "dead $value"; return; fi; done < "$file"
  done
  echo 'dead 0'
}
trap '' HUP INT TERM QUIT
while read -r line; do
  case "$line" in
    hello) echo hello ;;
    repair) repair; echo repaired ;;
    end) kill_all; repair; count_oom ;;
  esac
done
kill_all`
