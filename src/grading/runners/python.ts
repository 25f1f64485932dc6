/** The Python that the image puts first. */
export const PYTHON = '"$(command -v python || command -v python3)"'

/** What Python loads by itself, and what its test runners are told by. */
export const PYTHON_SETTINGS = [
  ...['sitecustomize.py', 'usercustomize.py', '*.pth', '*.egg-link', 'pyvenv.cfg'],
  // Packages that look installed name plugins, and what was compiled is taken for what it was made of.
  ...['*.dist-info/', '*.egg-info/', '*.egg', '__pycache__/', '*.pyc'],
  ...['setup.cfg', 'pyproject.toml', 'tox.ini'],
]

export const PYTHON_TEST_FILE: RegExp = /(^|\/)(test_[^/]*|[^/]*_tests?|tests?)\.py$/
