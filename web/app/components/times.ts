// Formats are created when they are first used: loading the data of a language takes tens of milliseconds.

let dayFormat: Intl.DateTimeFormat | undefined
let clockFormat: Intl.DateTimeFormat | undefined

/** Formats a time as day, month, hours and minutes. */
export function formatTime(iso: string): string {
  dayFormat ??= new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' })
  return dayFormat.format(new Date(iso))
}

/** Formats the time of day, with seconds. */
export function formatClock(iso: string): string {
  clockFormat ??= new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
  return clockFormat.format(new Date(iso))
}
