import { z } from 'zod'
import { isBlocking, type LintFacts, type LintFinding } from '../lint/finding.ts'
import { findInjections } from '../lint/injection.ts'
import { lintInstruction } from '../lint/lint-instruction.ts'
import { type InstructionDraft, renderInstruction } from '../lint/render-instruction.ts'
import { toAnswerShape } from '../models/answer-schema.ts'
import { askTyped, type TypedAnswer } from '../models/ask-typed.ts'
import type { ModelBill, StageModel } from '../models/stage-model.ts'
import { done, reject, type StageResult } from '../stage-result.ts'
import { AUTHOR_NEUTRAL, AUTHOR_SYSTEM, buildAuthorPrompt } from './author-prompt.ts'
import { isThin, type PullRequestText, sanitise } from './sanitise.ts'

const text = (max: number) => z.string().max(max)

const Draft = z.strictObject({
  title: text(120).min(3),
  problem: text(4_000).min(20),
  expected: text(3_000).min(20),
  actual: text(2_000).nullable(),
  reproduction: text(3_000).nullable(),
  constraints: z.array(text(400).min(3)).max(10),
})

const SHAPE = toAnswerShape('instruction', Draft)

export type AuthorInput = {
  text: PullRequestText
  /** How tests fail before the change, by their ids. */
  messages: Record<string, string>
  facts: LintFacts
}

export type AuthoredInstruction = {
  draft: InstructionDraft
  markdown: string
  /** `diff`: the pull request had no description, so the author saw the change. */
  specSource: 'text' | 'diff'
  /** For the person who decides. Nothing among them blocks. */
  warnings: LintFinding[]
  rounds: number
  bill: ModelBill
}

/** More names than this no text can explain. */
const PINNED_MAX = 60
const REPAIRS_MAX = 2

/** Writes the instruction of a candidate. PR text is untrusted; it is passed as data, and the model has no tools. */
export async function writeInstruction(
  model: StageModel,
  input: AuthorInput,
  signal: AbortSignal,
): Promise<StageResult<AuthoredInstruction>> {
  const { facts } = input
  if (facts.pinned.length > PINNED_MAX)
    return reject(
      'too_broad',
      `The tests rely on ${facts.pinned.length} names that nobody could guess; ${PINNED_MAX} are the most.`,
    )

  const text = sanitise(input.text)
  const specSource = isThin(text) ? 'diff' : 'text'
  const lint = (draft: InstructionDraft) => lintInstruction(renderInstruction(draft, facts.pinned), facts)
  const answer = await askTyped(
    model,
    {
      system: AUTHOR_SYSTEM,
      neutral: AUTHOR_NEUTRAL,
      shape: SHAPE,
      schema: Draft,
      repairsMax: REPAIRS_MAX,
      prompt: buildAuthorPrompt({ text, messages: input.messages, facts, withChange: specSource === 'diff' }),
      faults: (draft) => lint(draft).filter(isBlocking).map(describeFinding),
    },
    signal,
  )
  if (answer.kind !== 'value') return toStageRejection(answer, lint)
  const warnings = [...lint(answer.value), ...findInjections(joinTexts(input.text))]
  const markdown = renderInstruction(answer.value, facts.pinned)
  return done({ draft: answer.value, markdown, specSource, warnings, rounds: answer.rounds, bill: await model.bill() })
}

const describeFinding = ({ rule, detail, excerpt }: LintFinding): string =>
  `${rule}: ${detail}${excerpt === '' ? '' : ` It is here: ${JSON.stringify(excerpt)}`}`

const joinTexts = ({ title, body, issues }: PullRequestText): string =>
  [title, body, ...issues.flatMap((issue) => [issue.title, issue.body])].join('\n')

type FailedAnswer = Exclude<TypedAnswer<InstructionDraft>, { kind: 'value' }>

function toStageRejection(answer: FailedAnswer, lint: (draft: InstructionDraft) => LintFinding[]): StageResult<never> {
  switch (answer.kind) {
    case 'deferred':
      return answer
    case 'spent':
      return reject('author_budget', answer.detail)
    case 'refused':
      return reject('author_refused', answer.detail)
    case 'invalid':
      return reject('author_invalid_output', answer.detail)
    case 'faulty': {
      const findings = lint(answer.value).filter(isBlocking)
      const evidence = { draft: answer.value, findings }
      return reject(findings[0]?.rule ?? 'author_invalid_output', answer.detail, evidence)
    }
  }
}
