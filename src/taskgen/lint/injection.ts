import { type LintFinding, newFinding } from './finding.ts'

/** Phrases that address a model rather than a reader. */
const PHRASES = [
  /\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|preceding|system|all)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules?|messages?|directions?)\b/i,
  /\byou are (?:now|no longer)\b[^.\n]{0,60}\b(?:assistant|model|ai|agent|author|reviewer|mode)\b/i,
  /\b(?:system|developer) prompt\b/i,
  /\b(?:reveal|print|repeat|leak|exfiltrate)\b[^.\n]{0,40}\b(?:prompt|instructions|api key|secret|token)\b/i,
  /<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[\/?INST\]|^[ \t]{0,20}(?:#{1,6}[ \t]{1,5})?(?:system|assistant)[ \t]{0,5}:/im,
  /\bas an? (?:ai|language model|llm)\b/i,
  /\b(?:answer|respond|reply|output|return)\b[^.\n]{0,30}\b(?:yes to (?:all|every)|only with|exactly the following|pass for every)\b/i,
  /\b(?:note|message|instructions?) (?:to|for) (?:the )?(?:ai|llm|model|grader|reviewer bot|assistant)\b/i,
]

const TEXT_MAX = 200_000

/** Finds text that may be a prompt injection, for the reviewer. Models get it as data and have no tools. */
export const findInjections = (text: string): LintFinding[] =>
  PHRASES.flatMap((phrase) => {
    const found = phrase.exec(text.slice(0, TEXT_MAX))
    return found ? [newFinding('injection', 'This seems to be meant for a model.', found[0])] : []
  })
