-- How the command ends.
return { STOPPED = 0, CRASHED = 1, USAGE = 2, NO_REDIS = 3 }
