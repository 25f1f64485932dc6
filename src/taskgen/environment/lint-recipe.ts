import type { EnvRecipe } from '../../grading/languages/recipe.ts'

/** Facts that a recipe is checked against. */
export type RecipeFacts = {
  /** Base images, and runners, that there are. */
  bases: readonly string[]
  runners: readonly string[]
  /** Every path of the tree. */
  paths: ReadonlySet<string>
  /** Under which names the project itself is published. */
  ownPackages: readonly string[]
}

/** Lists the faults of a recipe before anything of it is executed. */
export function lintRecipe(recipe: EnvRecipe, facts: RecipeFacts): string[] {
  const tree = { ...facts, folders: new Set([...facts.paths].flatMap(listFolders)) }
  return [
    ...(facts.bases.includes(recipe.base)
      ? []
      : [`base: there is no ${quoteExcerpt(recipe.base)}. There are: ${facts.bases.join(', ')}.`]),
    ...(facts.runners.includes(recipe.runner)
      ? []
      : [`runner: there is no ${quoteExcerpt(recipe.runner)}. There are: ${facts.runners.join(', ')}.`]),
    ...recipe.aptPackages.flatMap((name) => listAptFaults(name, facts)),
    ...Object.keys(recipe.env)
      .filter((name) => !ENV_NAME.test(name) || FOREIGN_ENV.test(name))
      .map((name) => `env: ${quoteExcerpt(name)} must not be set.`),
    ...recipe.manifests
      .filter((path) => !facts.paths.has(path))
      .map((path) => `manifests: the tree has no ${quoteExcerpt(path)}.`),
    ...[...recipe.setup, ...recipe.build].flatMap((line) => listLineFaults(line, tree)),
  ]
}

const APT = /^[a-z0-9][a-z0-9+.-]{1,60}$/
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,60}$/
/** Variables that inject code, redirect traffic or carry secrets. */
const FOREIGN_ENV = /^(?:LD_|DYLD_|BASH_ENV$|ENV$|GIT_|PYTHONSTARTUP$|PERL5OPT$|RUBYOPT$)|PROXY$|TOKEN|SECRET|PASSWORD/i

/** Debian calls a library `python3-<name>` and the like. */
function listAptFaults(name: string, { ownPackages }: RecipeFacts): string[] {
  if (!APT.test(name)) return [`aptPackages: ${quoteExcerpt(name)} is no name of a package.`]
  const isOwn = ownPackages.map(normaliseName).some((own) => name === own || name.endsWith(`-${own}`))
  return isOwn ? [`aptPackages: ${quoteExcerpt(name)} is the project itself.`] : []
}

type RecipeTree = RecipeFacts & { folders: ReadonlySet<string> }

type LineRule = [pattern: RegExp, why: string]

const LINE_RULES: LineRule[] = [
  [/\|\|\s*(?:true\b|:|exit\s+0|echo\b|printf\b)|;\s*(?:true|:|exit\s+0)\s*$|\bset\s+\+e\b/, 'it hides a failure'],
  [/\b(?:curl|wget|aria2c|nc|ncat)\b/, 'it downloads by itself; package managers do that'],
  [/\b(?:sed|perl|ruby|gawk)\s+(?:-\S+\s+)*(?:-i|--in-place|-pi)/, 'it edits files in place'],
  [
    /\bgit\s+(?:-\S+\s+)*(?:apply|am|checkout|switch|restore|reset|clean|stash|rm|mv|cherry-pick|revert|pull|fetch|clone|submodule|commit|config|remote)\b/,
    'it changes the tree with git, or reaches for another',
  ],
  [/(?:^|[;&|]\s*)patch\s/, 'it patches files'],
  [/\b(?:eval|base64\s+(?:-d|--decode))\b/, 'it hides what it runs'],
  [/(?:^|\s)(?:\/solution|\/tests|\/logs)\b/, 'it reaches for what is not its own'],
]

const LINE_MAX = 500

function listLineFaults(line: string, facts: RecipeTree): string[] {
  if (line.length > LINE_MAX || /[\n\r\0]/.test(line))
    return [`${quoteExcerpt(line)}: one line of at most ${LINE_MAX} characters.`]
  const rules = LINE_RULES.filter(([pattern]) => pattern.test(line)).map(([, why]) => why)
  return [...rules, ...listTreeFaults(line, facts), ...listOwnPackageFaults(line, facts)].map(
    (why) => `${quoteExcerpt(line)}: ${why}.`,
  )
}

const CHANGERS = new Set([
  'rm',
  'mv',
  'cp',
  'tee',
  'truncate',
  'unlink',
  'rmdir',
  'install',
  'ln',
  'chmod',
  'chown',
  'rsync',
  'dd',
])

/** Files of the project stay as they are, its tests first of all. */
function listTreeFaults(line: string, { paths, folders }: RecipeTree): string[] {
  const isTracked = (word: string) => {
    const path = word
      .replaceAll(/^["']|["']$/g, '')
      .replace(/^(?:\.\/|\/workspace\/repo\/)+/, '')
      .replace(/\/+$|\/\*+$/g, '')
    return (
      path === '' || path === '*' || path === '.' || paths.has(path) || folders.has(path) || hasGlobHit(path, paths)
    )
  }
  const redirected = [...line.matchAll(/>>?\s*([^\s;&|<>]+)/g)].map(([, target]) => target ?? '')
  const changed = line.split(/[;&|]+/).flatMap((part) => {
    const [command = '', ...words] = part
      .trim()
      .split(/\s+/)
      .filter((word) => !/^(?:sudo|\w+=\S*)$/.test(word))
    const own = words.filter((word) => !word.startsWith('-'))
    if (command === 'find' && /-delete|-exec/.test(part)) return ['.']
    return CHANGERS.has(command) ? listTouched(command, own) : []
  })
  return [...redirected, ...changed].some(isTracked) ? ['it changes or deletes files of the project'] : []
}

/** Lists the paths that a command may change. A copy changes only its destination. */
const listTouched = (command: string, words: readonly string[]): readonly string[] =>
  ['cp', 'install', 'ln', 'rsync'].includes(command) ? words.slice(-1).filter((word) => word !== '.') : words

const listFolders = (path: string): string[] =>
  path
    .split('/')
    .slice(0, -1)
    .map((_, at, parts) => parts.slice(0, at + 1).join('/'))

function hasGlobHit(word: string, paths: ReadonlySet<string>): boolean {
  const at = word.search(/[*?[{]/)
  return at >= 0 && [...paths].some((path) => path.startsWith(word.slice(0, at)))
}

const INSTALLS =
  /\b(?:pip3?|uv|pipx|poetry|conda|npm|npx|yarn|pnpm|bun|cargo|go|gem|composer|apt-get|apt)\b[^;&|]*?\b(?:install|add|get|require|i)\b([^;&|]*)/g

/** The published package may contain the fix. */
function listOwnPackageFaults(line: string, { ownPackages }: RecipeFacts): string[] {
  const own = new Set(ownPackages.map(normaliseName))
  const named = [...line.matchAll(INSTALLS)].flatMap(([, words = '']) => words.trim().split(/\s+/))
  const names = named.map((word) =>
    normaliseName(word.replaceAll(/^["']|["']$/g, '').replace(/(?<=.)(?:@|\[|[=<>~!^]=?).*$/, '')),
  )
  return names.some((name) => own.has(name)) ? ['it installs the project itself from elsewhere'] : []
}

const normaliseName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-')

const quoteExcerpt = (text: string): string => JSON.stringify(text.slice(0, 120).toWellFormed())
