/** Points between every two writes of a submission and a trial, in order. Tests stop the process at each of them. */
export const STEPS = [
  'submit.claimed',
  'submit.downloaded',
  'submit.frozen',
  'submit.inserted',
  'submit.planned',
  'submit.queued',
  'submit.enqueued',
  'trial.claimed',
  'trial.started',
  'trial.startRecorded',
  'trial.calibrated',
  'trial.granted',
  'trial.ran',
  'trial.stored',
  'trial.finished',
] as const

/** Called when a step is reached. */
export type OnStep = (step: (typeof STEPS)[number]) => void
