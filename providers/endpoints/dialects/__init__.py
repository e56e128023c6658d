"""Dialects of endpoints: error wordings, finish words, and pieces of answers that gateways number or cut wrongly."""
