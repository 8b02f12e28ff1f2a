-- The version of the package; the C module must be of the same.
return "0.1.0"
