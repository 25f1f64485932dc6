import { z } from 'zod'

/** Clients give up on a call after 60 seconds unless they are configured otherwise. */
const WAIT_SECONDS_DEFAULT = 45
const WAIT_SECONDS_MAX = 3600

export const waitSeconds = z
  .number()
  .min(0)
  .max(WAIT_SECONDS_MAX)
  .default(WAIT_SECONDS_DEFAULT)
  .describe('How long to wait. Many clients end a call after 60 seconds')

/** Returns a signal that aborts after this time, or when the call is canceled. */
export const abortAfter = (seconds: number, canceled: AbortSignal): AbortSignal =>
  AbortSignal.any([canceled, AbortSignal.timeout(seconds * 1000)])
