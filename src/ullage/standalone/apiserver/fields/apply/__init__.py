"""Server-side apply: a manager says what it wants and owns what it says (merge); objects merged by their shape (combine); what
a configuration must be before it can be merged (typed).
"""
