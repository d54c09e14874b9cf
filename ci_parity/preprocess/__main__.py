"""The process that carries a declared pipeline out; `stages.declared_pipeline` starts it."""

from ci_parity.preprocess.worker import main

main()
