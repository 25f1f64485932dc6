import { CREDENTIAL_FORMATS, isPlaceholder } from '../../harbor/safety/rules/credentials.ts'

/** Untrusted text of the pull request and its issues. */
export type PullRequestText = { title: string; body: string; issues: { title: string; body: string }[] }

const TITLE_LENGTH_MAX = 300
const BODY_LENGTH_MAX = 8_000
const ISSUES_MAX = 3

/** Patterns of references to the original change, of images and of invisible characters, with their replacements. */
const REPLACEMENTS: [RegExp, string][] = [
  // HTML comments
  [/<!--[\s\S]*?(?:-->|$)/g, ''],
  // Images and videos
  [/!\[[^\]\n]*\]\([^)\n]*\)|<(?:img|video)\b[^>]*>/gi, ''],
  // Trailers of commit messages, and lines that close issues
  [
    /^(?:co-authored-by|signed-off-by|reviewed-by|acked-by|closes|fixes|resolves|refs?|see also|pr-url|change-id|cc)\b\s*:?.{0,200}$/gim,
    '',
  ],
  [/\bhttps?:\/\/[^\s)>\]]+/gi, '[link]'],
  // Numbers of issues and pull requests, such as `#12` and `acme/widgets#12`
  [/(?<![\w&/])(?:[\w.-]{1,60}\/[\w.-]{1,60})?#\d{1,7}\b/g, '[number]'],
  // Commit ids: hexadecimal digits with at least one digit and one letter
  [/(?<![0-9A-Za-z_])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![0-9A-Za-z_])/gi, '[commit]'],
  // Mentions of people
  [/(?<![\w`])@[A-Za-z0-9][\w-]{1,38}/g, '[person]'],
  // Control and invisible characters
  [/(?![\n\t])[\p{Cc}\p{Cf}]/gu, ''],
]

/** Removes secrets, and references to the original change, before a model sees the text. */
export function sanitise({ title, body, issues }: PullRequestText): PullRequestText {
  return {
    title: clean(title, TITLE_LENGTH_MAX).replace(/\s*\((?:\[number\])\)\s*$/, ''),
    body: clean(body, BODY_LENGTH_MAX),
    issues: issues.slice(0, ISSUES_MAX).map((issue) => ({
      title: clean(issue.title, TITLE_LENGTH_MAX),
      body: clean(issue.body, BODY_LENGTH_MAX),
    })),
  }
}

/** Truncates a text, so that patterns run on bounded input, and then applies all replacements. */
const clean = (text: string, max: number): string =>
  REPLACEMENTS.reduce(
    (result, [pattern, replacement]) => result.replaceAll(pattern, replacement),
    redactSecrets(text.slice(0, max).toWellFormed()),
  )
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()

const PRIVATE_KEY = /-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}-----|$)/g

/** Redacts credentials. Obvious placeholders stay, because the task may be about them. */
const redactSecrets = (text: string): string =>
  CREDENTIAL_FORMATS.filter(({ hint }) => text.includes(hint)).reduce(
    (result, { pattern }) => result.replaceAll(pattern, (key) => (isPlaceholder(key) ? key : '[secret]')),
    text.replaceAll(PRIVATE_KEY, '[secret]'),
  )

const WORDS_MIN = 25

/** Returns true if the text is too short to describe the change; the author model then sees the diff. */
export const isThin = (text: PullRequestText): boolean =>
  (joinTexts(text).match(/[\p{L}\p{N}]{2,}/gu) ?? []).length < WORDS_MIN

export const joinTexts = ({ title, body, issues }: PullRequestText): string =>
  [title, body, ...issues.flatMap((issue) => [issue.title, issue.body])].join('\n')
