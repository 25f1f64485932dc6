import { CREDENTIAL_FORMATS, isPlaceholder } from '../credential-formats.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import { lineAt, memoize, type TaskView, type TextFile } from '../view.ts'

type CredentialMatch = RuleMatch & { isIssued: boolean }

/** Maximum number of matches per format and file. */
const PER_FORMAT_MAX = 3
const MATCHES_MAX = 100

const listCredentials = memoize(({ texts }: TaskView): CredentialMatch[] => texts.flatMap(matchCredentials))

/** Lists the credentials in a file. Messages must not contain the value. */
export const matchCredentials = ({ path, text }: TextFile): CredentialMatch[] =>
  CREDENTIAL_FORMATS.filter(({ hint }) => text.includes(hint)).flatMap(({ name, pattern, isIssued }) => {
    const real = text
      .matchAll(pattern)
      .take(MATCHES_MAX)
      .filter(([value]) => !isPlaceholder(value))
    return [...real.take(PER_FORMAT_MAX)].map(({ 0: value, index }) => ({
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
    description: 'a token that only its issuer can have made: its checksum or its mark is right',
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
