/** Prefixes of conventional commits that promise no change of behaviour. */
const PREFIX =
  /^(chore|docs?|documentation|ci|build|style|tests?|deps?|dependencies|release|typos?|bump|lint|format|i18n|l10n|meta|website)\s*(\([^)]*\))?!?:/i

const CHORES: [what: string, pattern: RegExp][] = [
  ['prefix', PREFIX],
  ['revert', /^revert\b|^\[?revert\]?[:\s]/i],
  [
    'bump',
    /^(bump|upgrade|update|pin)\b.*\b(from \S+ to \S+|to v?\d[\w.]*|version|versions|dependenc\w+|deps|lock ?files?|requirements)$/i,
  ],
  ['bump', /^(bump|build\(deps)/i],
  [
    'release',
    /^(release|prepare (for )?(the )?(next )?release|version|cut|tag)\b[\s:]*v?\d|^v?\d+\.\d+(\.\d+)?\S*$|^(release|prepare release|version bump)$/i,
  ],
  ['backport', /\b(back|forward)[- ]?port|cherry[- ]?pick|^\[(v?\d[\w.]*|stable|backport)[^\]]*\]/i],
  ['merge', /^(merge|sync)\b.*\b(into|branch|from|with|upstream|master|main|stable)\b/i],
  [
    'docs',
    /^(update|fix|improve|add|edit|remove)? ?(the )?(readme|changelog|docs?|documentation|contributing|license|code ?owners|authors|translations?)\b[^:]*$/i,
  ],
  ['typo', /^(fix|correct)?(es|ed|ing|s)? ?(a |some |minor |small )*typos?\b/i],
]

/** Characters of a title that are read. */
const READ_MAX = 500

/** Returns the kind of chore that a title announces. */
export function findChore(title: string): string | undefined {
  const text = title.slice(0, READ_MAX).trim()
  return CHORES.find(([, pattern]) => pattern.test(text))?.[0]
}

const BOTS = [
  /\[bot\]$|[-_ ](bot|robot)$/i,
  /^(dependabot|renovate|greenkeeper|snyk-bot|pyup-bot|pyup\.io bot|pre-commit-ci|github-actions?|imgbot|mergify|bors)\b/i,
  /^(allcontributors|codecov|semantic-release-bot|weblate|hosted weblate|transifex|k8s-ci-robot|crowdin|copybara)\b/i,
  /^(whitesource|deepsource|restyled|sourcery-ai)\b/i,
]
const BOT_BRANCHES =
  /^(dependabot|renovate|pyup|snyk|greenkeeper|pre-commit-ci|imgbot|all-contributors|weblate|crowdin|whitesource|restyled)[/_-]/i

export const isBotName = (name: string): boolean => BOTS.some((pattern) => pattern.test(name.trim()))
export const isBotBranch = (branch: string): boolean => BOT_BRANCHES.test(branch)
