import { type ReactNode, useState } from 'react'

type ConfirmButtonProps = {
  /** Name of the action for screen readers, with its object: `Delete acme/billing`. */
  label: string
  isPending: boolean
  onConfirm: () => void
  /** Visible text before the first click. */
  children: ReactNode
}

/** A button for an action that cannot be undone. A second click confirms. */
export function ConfirmButton({ label, isPending, onConfirm, children }: ConfirmButtonProps) {
  const [isConfirming, setConfirming] = useState(false)
  if (!isConfirming)
    return (
      <button type="button" className="button" aria-label={label} onClick={() => setConfirming(true)}>
        {children}
      </button>
    )
  return (
    <button
      type="button"
      className="button danger"
      aria-label={`Confirm: ${label}`}
      disabled={isPending}
      onBlur={() => setConfirming(false)}
      onClick={() => {
        setConfirming(false)
        onConfirm()
      }}
    >
      Confirm
    </button>
  )
}
