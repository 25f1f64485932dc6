/** Returns true if a key press is input to a form field or has a modifier, and therefore is not a shortcut. */
export function isTyping(event: KeyboardEvent): boolean {
  if (event.metaKey || event.ctrlKey || event.altKey) return true
  const { target } = event
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable], dialog') !== null
}
