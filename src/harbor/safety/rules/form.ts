import type { SafetyRule } from '../rule.ts'
import type { TaskView } from '../view.ts'

const MISSING = new Set(['missing_file'])
const ESCAPES = new Set(['unsafe_path'])
const LINKS_AND_DEVICES = new Set(['link_outside', 'link_to_folder', 'special_file', 'through_a_link'])
const COLLISIONS = new Set(['collision', 'duplicate', 'under_a_file'])
const SIZES = new Set(['too_large', 'too_many_files', 'path_too_deep', 'path_too_long', 'too_complex', 'too_deep'])
const NAMED = new Set([...MISSING, ...ESCAPES, ...LINKS_AND_DEVICES, ...COLLISIONS, ...SIZES])

const matchRefusals = (isReason: (code: string) => boolean) => (view: TaskView) =>
  view.refusals
    .filter(({ code }) => isReason(code))
    .map(({ path, code, message }) => ({ path, detail: `${message} (${code})` }))

/** Rules for the refusals of the task reader, by reason. */
export const formRules: SafetyRule[] = [
  {
    id: 'schema',
    severity: 'block',
    description: 'task.toml, a compose file or a Dockerfile that is invalid or uses unsupported keys',
    check: matchRefusals((code) => !NAMED.has(code)),
  },
  {
    id: 'required_files',
    severity: 'block',
    description: 'a task without its instruction, its environment or its tests',
    check: matchRefusals((code) => MISSING.has(code)),
  },
  {
    id: 'path_escapes',
    severity: 'block',
    description: 'a path that leads out of the task, or that programs may resolve differently',
    check: matchRefusals((code) => ESCAPES.has(code)),
  },
  {
    id: 'links_and_devices',
    severity: 'block',
    description: 'a link that leads out, a link to a folder, a device, a pipe or a socket',
    check: matchRefusals((code) => LINKS_AND_DEVICES.has(code)),
  },
  {
    id: 'name_collisions',
    severity: 'block',
    description: 'two paths that name one file on systems that ignore letter case or Unicode form',
    check: matchRefusals((code) => COLLISIONS.has(code)),
  },
  {
    id: 'sizes_and_counts',
    severity: 'block',
    description: 'too many files, a file or a path that is too long, a text made to be slow to parse',
    check: matchRefusals((code) => SIZES.has(code)),
  },
  {
    id: 'unknown_keys',
    severity: 'warn',
    description: 'a key in task.toml that has no meaning, such as a misspelt one',
    check: ({ warnings }) =>
      warnings.filter(({ code }) => code === 'unknown_key').map(({ path, message }) => ({ path, detail: message })),
  },
  {
    id: 'scan_limit',
    severity: 'warn',
    description: 'a text so long that only its beginning was scanned',
    check: ({ texts }) =>
      texts
        .filter(({ isWhole }) => !isWhole)
        .map(({ path }) => ({ path, detail: 'Only the beginning of this file was scanned.' })),
  },
]
