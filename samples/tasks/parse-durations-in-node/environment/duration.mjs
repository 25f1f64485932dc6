export function seconds(_text) {
  return undefined
}
