/** Upper limits, and for `uniqueTypePercent` a lower one. Lower them as the code improves; never raise them. */
export type ProseLimits = {
  flaggedCommentPercent: number
  vagueTypes: number
  uniqueTypePercent: number
  literalSpreads: number
}

type ProseCount = {
  comments: number
  /** Comments that break a rule, with their files. */
  flagged: string[]
  /** Files that declare a type, by the name of the type. */
  typeFiles: Map<string, string[]>
  /** Spreads of object literals, with their files. */
  spreads: string[]
}

/** Words at the beginning of a comment that leave the subject of the sentence to the reader. */
const OPENER_WITHOUT_SUBJECT =
  /^(What|Who|Whoever|Whose|Whom|Of |Where |Whether|All that|Those|One |So much|So many|Null:|Undefined:|True:|False:|It |They |Its |The same|As |With |Without |By |For whoever|How (often|much|many))/

/** Words for which there is an ordinary technical term. */
const UNUSUAL_WORDS =
  /\b(strangers?|whoever|whose doing|is told|are told|mend(ed|s)?|any more|for ever|the very|nobody|everybody|somebody|that is none|are none|came to its end|to its end|anew|at hand|is gone|goes on|of ours)\b/i

/** Names of types that do not say what the type is. */
const VAGUE_TYPE =
  /^(Wish|Place|Found|Told|Seen|Asked|Kept|Left|Rooms?|Way|Bench|Order|Question|Tools|Heard|Chosen|Judged|Making|Surroundings|Remains|Living|Workshop|Kit|Asking|Holder|Bell|Ear|Habits|Grounds|Cast|Joint|Standing)$/

const DOC_COMMENT = /\/\*\*[ \t]*(?:\n\s*\*[ \t]*)?([\s\S]*?)\*\//g
const LINE_COMMENT = /(?<!:)\/\/ (.*)/g
const TYPE_DECLARATION = /^(?:export )?(?:type|interface|class) (\w+)/gm
/** Matches `...{ a, b }` on a line of its own. */
const LITERAL_SPREAD = /^\s*\.\.\.\{[^}]*\},?$/gm
const EXAMPLES_SHOWN_MAX = 12

const isProductionCode = (path: string): boolean =>
  /^(src|cli|web|scripts|bench)\/.*\.tsx?$/.test(path) && !/\.(gen|test)\.tsx?$/.test(path)

/** Compares comments and type names of the production code with the style rules. Returns one line per exceeded limit. */
export function listProseFindings(
  paths: readonly string[],
  read: (path: string) => string,
  limits: ProseLimits,
): string[] {
  const { comments, flagged, typeFiles, spreads } = countProse(paths.filter(isProductionCode), read)
  const flaggedPercent = comments === 0 ? 0 : (100 * flagged.length) / comments
  const vague = [...typeFiles].filter(([name]) => VAGUE_TYPE.test(name))
  const vagueCount = vague.reduce((sum, [, files]) => sum + files.length, 0)
  const repeated = [...typeFiles].filter(([, files]) => files.length > 1)
  const uniquePercent = typeFiles.size === 0 ? 100 : 100 - (100 * repeated.length) / typeFiles.size
  const formatTypes = (types: [string, string[]][]) => types.map(([name, files]) => `${name}: ${files.join(', ')}`)
  return [
    ...(flaggedPercent > limits.flaggedCommentPercent
      ? describeFinding(`${flaggedPercent.toFixed(1)} % of comments are flagged`, limits.flaggedCommentPercent, flagged)
      : []),
    ...(vagueCount > limits.vagueTypes
      ? describeFinding(`${vagueCount} types have a vague name`, limits.vagueTypes, formatTypes(vague))
      : []),
    ...(uniquePercent < limits.uniqueTypePercent
      ? describeFinding(
          `${uniquePercent.toFixed(1)} % of type names are unique`,
          limits.uniqueTypePercent,
          formatTypes(repeated),
        )
      : []),
    ...(spreads.length > limits.literalSpreads
      ? describeFinding(`${spreads.length} object literals are spread into a literal`, limits.literalSpreads, spreads)
      : []),
  ]
}

function countProse(paths: readonly string[], read: (path: string) => string): ProseCount {
  const texts = paths.map((path) => ({ path, text: read(path) }))
  const comments = texts.flatMap(({ path, text }) => readComments(text).map((comment) => ({ path, comment })))
  const types = texts.flatMap(({ path, text }) =>
    [...text.matchAll(TYPE_DECLARATION)].map(([, name = '']) => ({ path, name })),
  )
  return {
    comments: comments.length,
    flagged: comments
      .filter(({ comment }) => OPENER_WITHOUT_SUBJECT.test(comment) || UNUSUAL_WORDS.test(comment))
      .map(({ path, comment }) => `${path}: ${firstLine(comment)}`),
    typeFiles: new Map(
      [...Map.groupBy(types, ({ name }) => name)].map(([name, uses]) => [name, uses.map(({ path }) => path)]),
    ),
    spreads: texts.flatMap(({ path, text }) =>
      (text.match(LITERAL_SPREAD) ?? []).map((spread) => `${path}: ${spread.trim()}`),
    ),
  }
}

const readComments = (text: string): string[] =>
  [...text.matchAll(DOC_COMMENT), ...text.matchAll(LINE_COMMENT)].map(([, comment = '']) => comment.trim())

const firstLine = (comment: string): string => comment.split('\n', 1)[0]?.slice(0, 120) ?? ''

const describeFinding = (finding: string, limit: number, examples: readonly string[]): string[] => [
  `${finding}; the limit is ${limit}. CONTRIBUTING.md describes the style. For example:`,
  ...examples.slice(0, EXAMPLES_SHOWN_MAX).map((example) => `  ${example}`),
]
