/** The Python that the image puts first. */
export const PYTHON = '"$(command -v python || command -v python3)"'

/** Files that Python loads implicitly or that configure its test runners. */
export const PYTHON_SETTINGS = [
  'sitecustomize.py',
  'usercustomize.py',
  '*.pth',
  '*.egg-link',
  'pyvenv.cfg',
  // Packages that look installed name plugins, and what was compiled is taken for what it was made of.
  ...['*.dist-info/', '*.egg-info/', '*.egg', '__pycache__/', '*.pyc'],
  'setup.cfg',
  'pyproject.toml',
  'tox.ini',
]

export const PYTHON_TEST_FILE: RegExp = /(^|\/)(test_[^/]*|[^/]*_tests?|tests?)\.py$/
