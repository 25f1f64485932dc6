import { crc32 } from 'node:zlib'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import { lineAt, memoize, type TaskView, type TextFile } from '../view.ts'

type CredentialMatch = RuleMatch & { isIssued: boolean }

/** Maximum number of reported matches per format and file. */
const REPORTED_MAX = 3
/** Maximum number of examined matches per format and file. */
const EXAMINED_MAX = 100

const listCredentials = memoize(({ texts }: TaskView): CredentialMatch[] => texts.flatMap(matchCredentials))

/** Lists the credentials in a file. Messages must not contain the value. */
export const matchCredentials = ({ path, text }: TextFile): CredentialMatch[] =>
  CREDENTIAL_FORMATS.filter(({ hint }) => text.includes(hint)).flatMap(({ name, pattern, isIssued }) => {
    const real = text
      .matchAll(pattern)
      .take(EXAMINED_MAX)
      .filter(([value]) => !isPlaceholder(value))
    return [...real.take(REPORTED_MAX)].map(({ 0: value, index }) => ({
      path,
      line: lineAt(text, index),
      detail: `This looks like a ${name}.`,
      isIssued: isIssued?.(value) ?? false,
    }))
  })

const toMatch = ({ isIssued: _, ...found }: CredentialMatch): RuleMatch => found

export const credentialRules: SafetyRule[] = [
  {
    id: 'live_credentials',
    severity: 'block',
    description: 'a token whose checksum, or mark and length, shows that its issuer created it',
    check: (view) =>
      listCredentials(view)
        .filter(({ isIssued }) => isIssued)
        .map(toMatch),
  },
  {
    id: 'credentials',
    severity: 'warn',
    description: 'texts in the format of a key, a token or a private key',
    check: (view) =>
      listCredentials(view)
        .filter(({ isIssued }) => !isIssued)
        .map(toMatch),
  },
]

/**
 * A credential format that is specific to one issuer. Patterns begin at a word boundary, so that long words are scanned
 * only once.
 */
type CredentialFormat = {
  name: string
  /** Substring of every match. Searching for it first is much faster. */
  hint: string
  pattern: RegExp
  /** Tests whether the value was really issued: by a valid checksum, or a distinctive mark and length. */
  isIssued?(value: string): boolean
}

const START = '(?<![A-Za-z0-9_-])'
const END = '(?![A-Za-z0-9_-])'
const buildPattern = (text: string): RegExp => new RegExp(`${START}(?:${text})${END}`, 'g')

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Verifies the checksum of GitHub and npm tokens: the last six characters, over the thirty before. */
function hasChecksum(token: string): boolean {
  const body = token.slice(-36, -6)
  let rest = crc32(body)
  let digits = ''
  for (let digit = 0; digit < 6; digit++) {
    digits = (BASE62[rest % 62] ?? '') + digits
    rest = Math.floor(rest / 62)
  }
  return token.endsWith(digits)
}

export const CREDENTIAL_FORMATS: CredentialFormat[] = [
  ...['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'].map((hint) => ({
    name: 'GitHub token',
    hint,
    pattern: buildPattern(`${hint}[A-Za-z0-9]{36}`),
    isIssued: hasChecksum,
  })),
  {
    name: 'GitHub fine-grained token',
    hint: 'github_pat_',
    pattern: buildPattern('github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}'),
  },
  { name: 'npm token', hint: 'npm_', pattern: buildPattern('npm_[A-Za-z0-9]{36}'), isIssued: hasChecksum },
  {
    name: 'OpenAI key',
    hint: 'T3BlbkFJ',
    pattern: buildPattern('sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,74}T3BlbkFJ[A-Za-z0-9_-]{20,74}'),
    isIssued: isRandom,
  },
  {
    name: 'Anthropic key',
    hint: 'sk-ant-',
    pattern: buildPattern('sk-ant-(?:api|admin|oat)\\d\\d-[A-Za-z0-9_-]{93}AA'),
    isIssued: isRandom,
  },
  ...['AKIA', 'ASIA'].map((hint) => ({ name: 'AWS access key', hint, pattern: buildPattern(`${hint}[A-Z2-7]{16}`) })),
  { name: 'GitLab token', hint: 'glpat-', pattern: buildPattern('glpat-[A-Za-z0-9_-]{20}') },
  { name: 'Slack token', hint: 'xox', pattern: buildPattern('xox[abprs]-\\d{10,13}-\\d{10,13}-[A-Za-z0-9-]{16,64}') },
  { name: 'Google key', hint: 'AIza', pattern: buildPattern('AIza[A-Za-z0-9_-]{35}') },
  { name: 'Hugging Face token', hint: 'hf_', pattern: buildPattern('hf_[A-Za-z]{34}') },
  { name: 'Stripe live key', hint: 'k_live_', pattern: buildPattern('[sr]k_live_[A-Za-z0-9]{24,99}') },
  { name: 'SendGrid key', hint: 'SG.', pattern: buildPattern('SG\\.[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}') },
  { name: 'private key', hint: 'PRIVATE KEY-----', pattern: /-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----/g },
  {
    name: 'JSON web token',
    hint: 'eyJ',
    pattern: buildPattern('eyJ[A-Za-z0-9_-]{14,4000}\\.eyJ[A-Za-z0-9_-]{14,4000}\\.[A-Za-z0-9_-]{16,1000}'),
  },
]

const PLACEHOLDER =
  /example|placeholder|dummy|sample|fake|test|your|changeme|redacted|x{4}|0{4}|1234|abcd|qwerty|secret|(.)\1{4}/i

/** Recognises placeholder values of documentation and tests. */
export const isPlaceholder = (value: string): boolean =>
  PLACEHOLDER.test(value.replace(/^-----BEGIN.*/, '')) || (!value.startsWith('-----') && !isRandom(value))

/** Entropy per character in bits above which a value counts as random. */
const RANDOM_BITS_MIN = 3.2

/** Tests whether the entropy per character is that of a random value. */
function isRandom(value: string): boolean {
  const counts = new Map<string, number>()
  for (const letter of value) counts.set(letter, (counts.get(letter) ?? 0) + 1)
  const bits = [...counts.values()].reduce(
    (sum, count) => sum - (count / value.length) * Math.log2(count / value.length),
    0,
  )
  return bits > RANDOM_BITS_MIN
}
