/** A setting of a git configuration file. Section and key are lower case. `value` is null for a key without a value. */
type GitSetting = { section: string; subsection: string | null; key: string; value: string | null }

/** Settings with which git starts no program and reads no other file. */
const HARMLESS: readonly RegExp[] = [
  /^core\.(repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode)$/,
  /^core\.(autocrlf|eol|safecrlf|abbrev|quotepath|sharedrepository|sparsecheckout|sparsecheckoutcone|whitespace)$/,
  /^extensions\.(objectformat|refstorage)$/,
  /^remote\.\*\.(url|pushurl|fetch|push|tagopt|mirror|prune)$/,
  /^branch\.\*\.(remote|merge|rebase|pushremote|description)$/,
  /^submodule\.\*\.(url|active)$/,
  /^submodule\.active$/,
  /^user\.(name|email)$/,
  /^init\.defaultbranch$/,
  /^pull\.(rebase|ff)$/,
  /^push\.(default|autosetupremote)$/,
  /^merge\.(ff|conflictstyle)$/,
  /^color\.ui$/,
  /^rerere\.enabled$/,
]

/**
 * Returns a git configuration with the harmless settings of an untrusted one. Every line is rewritten, so that git and this
 * parser cannot disagree about its meaning.
 */
export function sanitizeGitConfig(text: string): string {
  return parseGitConfig(text).filter(isHarmless).map(writeSetting).join('')
}

const isHarmless = ({ section, subsection, key }: GitSetting): boolean =>
  HARMLESS.some((pattern) => pattern.test(subsection === null ? `${section}.${key}` : `${section}.*.${key}`))

type ConfigSection = Pick<GitSetting, 'section' | 'subsection'>

const HEADER = /^\s*\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]/
const KEY = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:(=)(.*))?$/

/** Lines that are not understood are skipped. */
function parseGitConfig(text: string): GitSetting[] {
  const settings: GitSetting[] = []
  let section: ConfigSection | undefined
  for (const line of joinContinued(text)) {
    const header = HEADER.exec(line)
    if (header || /^\s*\[/.test(line)) section = toSection(header)
    const setting = section && parseSetting(section, line.slice(header?.[0].length ?? 0))
    if (setting) settings.push(setting)
  }
  return settings
}

const toSection = (header: RegExpExecArray | null): ConfigSection | undefined =>
  header ? { section: (header[1] ?? '').toLowerCase(), subsection: unescaped(header[2]) } : undefined

function parseSetting(section: ConfigSection, line: string): GitSetting | undefined {
  const [found, key = '', equals, text = ''] = KEY.exec(line) ?? []
  if (found === undefined) return undefined
  const value = equals === undefined ? null : parseValue(text)
  return value === undefined ? undefined : { ...section, key: key.toLowerCase(), value }
}

const unescaped = (subsection: string | undefined): string | null => subsection?.replace(/\\(.)/g, '$1') ?? null

/** A backslash at the end of a line joins it with the next one. */
function joinContinued(text: string): string[] {
  return text
    .replace(/^\uFEFF/, '')
    .replace(/\r\n/g, '\n')
    .replace(/((?:^|[^\\])(?:\\\\)*)\\\n/g, '$1')
    .split('\n')
}

const QUOTED_VALUE = /^\s*"((?:[^"\\]|\\[ntb"\\])*)"\s*(?:[#;].*)?$/
const PLAIN_VALUE = /^\s*((?:[^"\\#;]|\\[ntb"\\])*?)\s*(?:[#;].*)?$/
const ESCAPES: Record<string, string> = { n: '\n', t: '\t', b: '\b', '"': '"', '\\': '\\' }

/** Parses values as git writes them: quoted completely or not at all. Returns undefined for other forms. */
const parseValue = (text: string): string | undefined =>
  (QUOTED_VALUE.exec(text) ?? PLAIN_VALUE.exec(text))?.[1]?.replace(/\\(.)/g, (_, letter) => ESCAPES[letter] ?? '')

function writeSetting({ section, subsection, key, value }: GitSetting): string {
  const header = subsection === null ? `[${section}]` : `[${section} "${subsection.replace(/["\\]/g, '\\$&')}"]`
  return value === null ? `${header}\n\t${key}\n` : `${header}\n\t${key} = ${quoted(value)}\n`
}

const WRITTEN: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\b': '\\b', '"': '\\"', '\\': '\\\\' }

const quoted = (value: string): string => `"${value.replace(/[\n\t\b"\\]/g, (letter) => WRITTEN[letter] ?? letter)}"`
