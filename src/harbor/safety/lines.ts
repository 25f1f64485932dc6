/** The first line is 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1
  for (let place = text.indexOf('\n'); place >= 0 && place < offset; place = text.indexOf('\n', place + 1)) line++
  return line
}
