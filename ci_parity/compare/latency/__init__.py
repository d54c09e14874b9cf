"""What timed sessions and measured memory say: from blocks to an interval, a decision and findings.

`student` has the quantiles, `estimate` turns blocks into one number a session, `rule` decides from
those numbers after each look, `verdict` makes findings of it, `measures` the figures beside them,
`memory` judges memory and `runner` what a calibration says of a machine; `creep` and
`change_points` look at many lines of a log. Nothing is run here.
"""
