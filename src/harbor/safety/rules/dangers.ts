import type { RuleMatch, SafetyRule } from '../rule.ts'
import { lineAt, memoize, type TaskView, type TextFile } from '../view.ts'

/** An attack on the machine that runs a task. */
type Danger = { id: string; description: string; detail: string; signs: RegExp[] }

/** Compiles a pattern. All repetitions must be bounded, so that matching takes constant time per position. */
const sign = (...alternatives: string[]): RegExp => new RegExp(alternatives.join('|'), 'i')

/** Matches wherever any sign matches. One search with it is much faster than a search for each sign. */
const HINT = sign(
  'stratum\\+|xmr|miner|t-rex|moneroocean|nanopool|f2pool|hashvault',
  '/dev/(?:tcp|udp|sd|nvme|vd|xvd)|\\bnc\\b|ncat\\b|netcat|mkfifo|socat|os\\.dup2|fsockopen',
  '169\\.254\\.|//(?:0xa9fea9fe|2852039166|0251)|metadata\\.google|100\\.100\\.100|fd00:ec2',
  'base64|base32|\\bxxd\\b|openssl|zlib|codecs|marshal|atob\\(|buffer\\.from|gzinflate|rot13|powershell',
  'nsenter|/proc/1/|core_pattern|release_agent|[ =]/:/',
)

const INTERPRETERS = '(?:sudo\\s{1,5})?(?:/\\S{0,60}/)?(?:(?:ba|da|z|k)?sh|python\\d?|perl|ruby|node|php)\\b'
const DECODERS =
  '\\b(?:base64\\s{1,5}(?:-d|--decode)|base32\\s{1,5}(?:-d|--decode)|xxd\\s{1,5}-r(?:\\s{1,5}-p)?|openssl\\s{1,5}(?:enc|base64)\\b[^\\n|]{0,60}-d)\\b'
const UNPACKERS = '(?:\\|\\s{0,5}(?:gunzip|zcat|gzip\\s{1,5}-d|tar|rev)\\b[^\\n|]{0,40}){0,2}'

const DANGERS: Danger[] = [
  {
    id: 'miner',
    description: 'a crypto miner',
    detail: 'The command starts or downloads a crypto miner.',
    signs: [
      sign('stratum\\+(?:tcp|ssl|tls)://'),
      sign('github\\.com/(?:xmrig/xmrig|tpruvot/cpuminer-multi|pooler/cpuminer|fireice-uk/xmr-stak)\\b'),
      sign(
        '\\b(?:xmrig|minerd|cpuminer|xmr-stak|nbminer|t-rex|phoenixminer|lolminer)\\b[^\\n]{0,80}\\s(?:-o|--url|-a|--algo|--donate-level|--pool)\\b',
      ),
      sign('\\b(?:minexmr|supportxmr|moneroocean|nanopool|f2pool|2miners|hashvault)\\.(?:com|org|pro|stream)\\b'),
    ],
  },
  {
    id: 'reverse_shell',
    description: 'a reverse shell',
    detail: 'The command opens a reverse shell.',
    signs: [
      sign('\\b(?:ba|da|z|k)?sh\\s{1,5}-i\\b[^\\n]{0,40}/dev/(?:tcp|udp)/'),
      sign(
        '\\b(?:nc|ncat|netcat)(?:\\.\\w{1,12})?\\b[^\\n|]{0,80}\\s-(?:[a-z]{0,6}[ec]|-exec|-sh-exec)\\s{1,5}\\S{0,40}(?:sh|cmd)\\b',
      ),
      sign('\\bmkfifo\\b[^\\n]{0,120}\\b(?:nc|ncat|netcat|openssl\\s{1,5}s_client)\\b'),
      sign('\\|\\s{0,5}\\S{0,40}sh\\s{1,5}-i\\b[^\\n|]{0,40}\\|\\s{0,5}\\S{0,40}(?:nc|ncat|netcat|openssl|telnet)\\b'),
      sign('\\bsocat\\b[^\\n]{0,120}\\bexec:[^\\n]{0,20}sh\\b'),
      sign('\\bsocket\\.socket\\b[^\\n]{0,200}\\bos\\.dup2\\b'),
      sign('\\bfsockopen\\([^\\n]{0,80}(?:exec|shell_exec|proc_open|system)\\('),
    ],
  },
  {
    id: 'metadata_endpoint',
    description: 'the metadata service of a cloud machine',
    detail: 'The command accesses the metadata service of a cloud machine, which provides credentials.',
    signs: [
      sign('(?<![\\d.])169\\.254\\.(?:169\\.254|170\\.2|170\\.23)(?!\\.?\\d)'),
      sign('//(?:0xa9fea9fe|2852039166|0251\\.0376\\.0251\\.0376)\\b'),
      sign('\\bmetadata\\.google\\.internal\\b'),
      sign('(?<![\\d.])100\\.100\\.100\\.200(?!\\.?\\d)'),
      sign('\\bfd00:ec2::254\\b'),
    ],
  },
  {
    id: 'obfuscated_payload',
    description: 'an encoded program that is decoded and executed',
    detail: 'The command decodes a program and executes it.',
    signs: [
      sign(
        `${DECODERS}[^\\n|]{0,60}${UNPACKERS}\\|\\s{0,5}${INTERPRETERS}`,
        `\\beval\\s{1,5}["']?(?:\\$\\(|\`)[^\\n]{0,500}${DECODERS}`,
      ),
      sign(
        `\\b(?:exec|eval)\\s{0,5}\\(\\s{0,5}(?:compile\\(\\s{0,5})?(?:__import__\\(["'](?:base64|zlib|codecs|marshal)["']\\)|base64|zlib|codecs|marshal)\\.(?:b64decode|b32decode|b85decode|a85decode|decompress|decode|loads)`,
      ),
      sign(`\\beval\\s{0,5}\\(\\s{0,5}(?:atob\\(|Buffer\\.from\\([^\\n)]{0,500},\\s{0,5}["'](?:base64|hex)["'])`),
      sign('\\beval\\s{0,5}\\(\\s{0,5}(?:gzinflate|str_rot13|base64_decode)\\('),
      sign('\\bpowershell(?:\\.exe)?\\b[^\\n]{0,80}\\s-(?:e|en|enc|encodedcommand)\\s{1,5}[A-Za-z0-9+/=]{40}'),
    ],
  },
  {
    id: 'host_escape',
    description: 'a known container escape',
    detail: 'The command is a known container escape.',
    signs: [
      sign('\\bnsenter\\b[^\\n]{0,80}(?:-t\\s{0,5}1\\b|--target[ =]1\\b)'),
      sign('/proc/1/root/'),
      sign('>\\s{0,5}/proc/sys/kernel/core_pattern'),
      sign('>\\s{0,5}\\S{0,100}/release_agent\\b'),
      sign('\\bdocker\\b[^\\n]{0,120}(?:-v|--volume)[ =]/:/'),
      sign('\\bmount\\b[^\\n]{0,60}\\s/dev/(?:sd[a-z]|nvme\\d|vd[a-z]|xvd[a-z])'),
    ],
  },
]

const matchCommands =
  ({ signs, detail }: Danger) =>
  ({ commands }: TaskView): RuleMatch[] =>
    commands
      .filter(({ text }) => signs.some((sign) => sign.test(text)))
      .map(({ path, line }) => ({ path, line, detail }))

const TEXT_MATCHES_MAX = 5

/** Lists files that may contain a sign, except those whose commands are checked. */
const listSuspects = memoize((view: TaskView): TextFile[] => {
  const checked = new Set([...view.dockerfiles, ...view.composes].map(({ path }) => path))
  return view.texts.filter(({ path, text }) => !checked.has(path) && HINT.test(text))
})

const matchTexts =
  (danger: Danger) =>
  (view: TaskView): RuleMatch[] =>
    listSuspects(view)
      .flatMap((file) => findFirst(file, danger) ?? [])
      .slice(0, TEXT_MATCHES_MAX)

function findFirst({ path, text }: TextFile, { signs }: Danger): RuleMatch | undefined {
  const offset = signs.map((sign) => text.search(sign)).find((index) => index >= 0)
  return offset === undefined ? undefined : { path, line: lineAt(text, offset), detail: ATTACK_TEXT }
}

const ATTACK_TEXT = 'The text looks like an attack. Check that it is part of the task.'

/**
 * Rules for signs of an attack. Commands that build or start a task are refused for them. In tests, solutions and other
 * files they only cause a warning, because they are common in tasks about security.
 */
export const dangerRules: SafetyRule[] = DANGERS.flatMap((danger): SafetyRule[] => [
  {
    id: danger.id,
    severity: 'block',
    description: `${danger.description}, where the task is built or started`,
    check: matchCommands(danger),
  },
  {
    id: `${danger.id}_text`,
    severity: 'warn',
    description: `${danger.description}, in another file`,
    check: matchTexts(danger),
  },
])
