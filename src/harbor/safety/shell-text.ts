const TOKEN = /\\[\s\S]|"(?:[^"\\]|\\[\s\S])*"|'[^']*'|>&|&>|&&|\|\||[\s\S]/g
const ENDS = new Set(['\n', ';', '&', '&&', '||'])

/**
 * The pipelines of a shell text: split at line ends, `;`, `&`, `&&` and `||` that stand outside quotation marks. A rough
 * reading: a rule looks for what a pipeline does, and not for what a shell would make of every letter.
 */
export function pipelinesOf(text: string): string[] {
  const found: string[] = []
  let start = 0
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (!ENDS.has(token)) continue
    found.push(text.slice(start, index))
    start = index + token.length
  }
  return [...found, text.slice(start)].map((piece) => piece.trim()).filter((piece) => piece !== '')
}

const WRITES =
  /^(?:[({]\s*|!\s+)?(?:sudo\s+)?(?:echo|printf|cat|tee|grep|egrep|sed|awk|touch|mkdir|rm|ln|cp|mv|export|which)\b/
const SHELL = /\|\s*(?:sudo\s+)?(?:\S{0,100}\/)?(?:(?:ba|da|z|k)?sh|python\d?|perl|ruby|node|php|crontab|xargs|at)\b/

/** It prints, searches or writes texts, and hands none of them to a shell. */
export const isOnlyText = (pipeline: string): boolean =>
  WRITES.test(pipeline) && !SHELL.test(pipeline) && !/\$\(|`|<\(/.test(pipeline)
