/** Returns true if a key belongs to a text field or is combined with a modifier, and is no shortcut. */
export function isTyping(event: KeyboardEvent): boolean {
  if (event.metaKey || event.ctrlKey || event.altKey) return true
  const { target } = event
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable], dialog') !== null
}
